#pragma once
#include <cstddef>
#include <cstdint>

namespace dtrain {

// What libdtrain_dicom.so, which alone knows DCMTK, gives to dicom.cpp. The two share no C++ class, no allocation and
// no exception, but this header, whose state its ModuleStamp names.

struct DicomFile;  ///< an open file, the module's

/// As of ImageHeader.
struct DicomHeader {
  int64_t height;
  int64_t width;
  int64_t channels;
  int64_t bits;
};

struct DicomModule {
  /// Reads the data elements; `bytes` must outlive the result. Null if it is refused, with a sentence in `why`, which
  /// holds `why_size` bytes.
  DicomFile* (*open)(const void* bytes, size_t size, DicomHeader* header, char* why, size_t why_size);
  /// The pixels as they are to be shown, height × width × channels of 8 or 16 bits, into `samples`, which holds
  /// `samples_size` bytes. False if it is refused. Once for each file.
  bool (*decode)(DicomFile* file, void* samples, size_t samples_size, char* why, size_t why_size);
  void (*close)(DicomFile* file);
};

inline constexpr const char* kDicomOutOfMemory = "out of memory";        ///< as `why`: no fault of the file
inline constexpr const char* kDicomModuleEntry = "dtrain_dicom_module";  ///< extern "C" const DicomModule
inline constexpr const char* kDicomModuleFile = "libdtrain_dicom.so";

}  // namespace dtrain
