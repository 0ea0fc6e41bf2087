#include <dlfcn.h>

#include <array>
#include <memory>
#include <new>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/module_file.hpp"
#include "dtrain/io/pictures/codecs.hpp"
#include "dtrain/io/pictures/dicom_module.hpp"

namespace dtrain {

namespace {

/// The module, or why it could not be loaded.
struct Loaded {
  const DicomModule* module = nullptr;
  std::string why;
  int code = exit_code::kBadData;  ///< without the module, DICOM is a format that is not read
};

Loaded loaded_module() {
  if (module_path(kDicomModuleFile).empty())
    return {nullptr, std::string(kDicomModuleFile) +
                         ", which reads such, is not in lib/ of the program's folder: it is built where DCMTK is "
                         "installed"};
  try {
    void* handle = load_module(kDicomModuleFile, DTRAIN_DICOM_STAMP);
    const auto* module = static_cast<const DicomModule*>(dlsym(handle, kDicomModuleEntry));
    check(module != nullptr, "the DICOM module is what its stamp says");
    return {module, ""};
  } catch (const Error& error) {
    return {nullptr, error.what(), error.code()};
  }
}

/// Loads the module at the first DICOM file; it stays until the process ends.
const Loaded& loaded() {
  static const Loaded result = loaded_module();
  return result;
}

class OpenDicom {
 public:
  OpenDicom(std::span<const std::byte> bytes, const std::string& name, const ImageLimits& limits)
      : name_(name), file_(nullptr, nullptr) {
    if (loaded().module == nullptr) throw NoReaderError(loaded().code, name + " is a DICOM file, and " + loaded().why);
    DicomHeader header{};
    file_ = {module().open(bytes.data(), bytes.size(), &header, why_.data(), why_.size()), module().close};
    if (file_ == nullptr) refuse();
    header_ = {header.height, header.width, header.channels, static_cast<int>(header.bits)};
    check_pixels(header_, name, limits);
  }

  const ImageHeader& header() const { return header_; }

  Image decode() {
    Image image = allocate_image(header_);
    void* samples = header_.bits == 16 ? static_cast<void*>(image.words.data()) : image.bytes.data();
    const size_t size = image.words.size() * sizeof(uint16_t) + image.bytes.size();
    if (!module().decode(file_.get(), samples, size, why_.data(), why_.size())) refuse();
    return image;
  }

 private:
  static const DicomModule& module() { return *loaded().module; }
  [[noreturn]] void refuse() const {
    if (std::string_view(why_.data()) == kDicomOutOfMemory) throw std::bad_alloc();
    throw DataError(name_ + ": DICOM: " + why_.data());
  }

  const std::string& name_;
  std::array<char, 512> why_{};
  std::unique_ptr<DicomFile, void (*)(DicomFile*)> file_;
  ImageHeader header_;
};

ImageHeader read_dicom_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  return OpenDicom(file, name, limits).header();
}

Image decode_dicom(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  return OpenDicom(file, name, limits).decode();
}

}  // namespace

/// Needs libdtrain_dicom.so beside the program (base/module_file.hpp; else a DataError says why). Reads one frame of
/// grey, palette or colour; uncompressed, deflated, RLE, JPEG, JPEG-LS; also old files, which lack the first 132 bytes.
/// Grey becomes 8 bits, or 16 where more than 8 are stored: rescaled as the file says, its first window (else darkest
/// to brightest pixel) spread from 0 to white, MONOCHROME1 inverted.
extern const PictureFormat kDicom = {
    .name = "DICOM",
    .endings = {".dcm", ".dicom"},
    .begins = [](std::string_view bytes) { return bytes.size() >= 132 && bytes.substr(128, 4) == "DICM"; },
    .decode = decode_dicom,
    .read_header = read_dicom_header,
    .bare = true,
};

}  // namespace dtrain
