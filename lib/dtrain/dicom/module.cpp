// Reads DICOM through DCMTK; io/dicom_module.hpp describes the result.
#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dcistrmb.h>
#include <dcmtk/dcmdata/dcrledrg.h>
#include <dcmtk/dcmdata/dctk.h>
#include <dcmtk/dcmimage/diregist.h>
#include <dcmtk/dcmimgle/dcmimage.h>
#include <dcmtk/dcmjpeg/djdecode.h>
#include <dcmtk/dcmjpls/djdecode.h>
#include <dcmtk/oflog/oflog.h>
#include <zlib.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/module_stamp.hpp"
#include "dtrain/io/pictures/dicom_module.hpp"

namespace dtrain {

namespace {

/// DCMTK's decoders and its log belong to the process: they are set up once and never removed.
void prepare_dcmtk() {
  static std::once_flag once;
  std::call_once(once, [] {
    OFLog::configure(OFLogger::OFF_LOG_LEVEL);
    DcmRLEDecoderRegistration::registerCodecs();
    DJDecoderRegistration::registerCodecs();
    DJLSDecoderRegistration::registerCodecs();
  });
}

[[noreturn]] void refuse(const std::string& what) { throw std::runtime_error(what); }

void require(const OFCondition& done, const std::string& what) {
  if (done.bad()) refuse(what + " (" + done.text() + ")");
}

/// Counts the items of sequences in a file, piece by piece. DCMTK calls itself for each level, so deeply nested
/// sequences would overflow the stack; each level has an item, so few items mean few levels. Files of one frame have a
/// few hundred at most. In pixels the four bytes occur by chance once in 4 GiB.
class ItemCount {
 public:
  void look_at(const unsigned char* bytes, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      last_ = last_ << 8 | bytes[i];
      if (last_ != 0xFEFF00E0U && last_ != 0xFFFEE000U) continue;  // (FFFE,E000), little or big endian
      if (++count_ > kMost) refuse("it has more than " + std::to_string(kMost) + " items of sequences");
    }
  }

 private:
  static constexpr int kMost = 1000;
  uint32_t last_ = 0;
  int count_ = 0;
};

/// Refuses a file whose elements are deflated as a whole and inflate to more than `most` bytes; DCMTK would allocate
/// memory for all of them. The file's meta group is not deflated, begins with its own length, and names the syntax.
void require_small_inflated(const unsigned char* bytes, size_t size, size_t most) {
  constexpr std::string_view kDeflated = "1.2.840.10008.1.2.1.99";
  constexpr size_t kMeta = 144;  // preamble, "DICM", and the element with the group's length
  if (size < kMeta) return;
  const size_t length = bytes[140] | bytes[141] << 8 | bytes[142] << 16 | static_cast<size_t>(bytes[143]) << 24;
  if (length > size - kMeta) return;
  const std::string_view meta(reinterpret_cast<const char*>(bytes) + kMeta, length);
  if (meta.find(kDeflated) == std::string_view::npos) return;
  z_stream stream{};
  if (inflateInit2(&stream, -15) != Z_OK) throw std::bad_alloc();
  stream.next_in = const_cast<Bytef*>(bytes + kMeta + length);
  stream.avail_in = static_cast<uInt>(std::min<size_t>(size - kMeta - length, UINT_MAX));
  std::vector<unsigned char> scratch(1 << 16);
  ItemCount items;
  size_t made = 0;
  int result = Z_OK;
  while (result == Z_OK && made <= most) {
    stream.next_out = scratch.data();
    stream.avail_out = static_cast<uInt>(scratch.size());
    result = inflate(&stream, Z_NO_FLUSH);
    made += scratch.size() - stream.avail_out;
    items.look_at(scratch.data(), scratch.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (made > most) refuse("its elements inflate to more than " + std::to_string(most) + " bytes");
}

}  // namespace

struct DicomFile {
  DicomFile(const void* bytes, size_t size) {
    constexpr size_t kMostInflated = size_t{256} << 20;
    ItemCount().look_at(static_cast<const unsigned char*>(bytes), size);
    require_small_inflated(static_cast<const unsigned char*>(bytes), size, kMostInflated);
    DcmInputBufferStream stream;
    stream.setBuffer(bytes, static_cast<offile_off_t>(size));
    stream.setEos();
    file_.transferInit();
    require(file_.read(stream, EXS_Unknown, EGL_noChange), "it cannot be read");
    file_.transferEnd();
    require_known_packing();
    read_header();
  }

  const DicomHeader& header() const { return header_; }

  void decode(void* samples, size_t size) {
    DcmDataset& data = *file_.getDataset();
    const DcmXfer packing(data.getOriginalXfer());
    if (packing.isEncapsulated() && data.chooseRepresentation(EXS_LittleEndianExplicit, nullptr).bad())
      refuse(std::string("its pixels cannot be decoded (") + packing.getXferName() + ")");
    const E_TransferSyntax now = packing.isEncapsulated() ? EXS_LittleEndianExplicit : data.getOriginalXfer();
    check_pixel_bytes(data);
    DicomImage picture(&data, now, 0UL, 0UL, 1UL);
    if (picture.getStatus() != EIS_Normal)
      refuse(std::string("damaged: ") + DicomImage::getString(picture.getStatus()));
    if (static_cast<int64_t>(picture.getHeight()) != header_.height ||
        static_cast<int64_t>(picture.getWidth()) != header_.width ||
        (picture.isMonochrome() != 0) != (header_.channels == 1))
      refuse("its pixels do not match its header");
    if (header_.channels == 1) choose_window(picture);
    if (picture.getOutputData(samples, static_cast<unsigned long>(size), static_cast<int>(header_.bits)) == 0)
      refuse("its pixels cannot be converted to grey or RGB");
  }

 private:
  int64_t number(const DcmTagKey& tag, const char* title) {
    Uint16 value = 0;
    if (file_.getDataset()->findAndGetUint16(tag, value).bad())
      refuse(std::string("it holds no picture: ") + title + " is missing");
    return value;
  }

  /// DCMTK takes a transfer syntax that it does not know for uncompressed.
  void require_known_packing() {
    OFString uid;
    if (file_.getMetaInfo()->findAndGetOFString(DCM_TransferSyntaxUID, uid).bad() || uid.empty()) return;
    if (DcmXfer(uid.c_str()).getXfer() == EXS_Unknown) refuse("its transfer syntax is not known");
  }

  void read_header() {
    DcmDataset& data = *file_.getDataset();
    header_.height = number(DCM_Rows, "Rows");
    header_.width = number(DCM_Columns, "Columns");
    allocated_ = number(DCM_BitsAllocated, "BitsAllocated");
    samples_ = number(DCM_SamplesPerPixel, "SamplesPerPixel");
    if (samples_ != 1 && samples_ != 3) refuse("it has " + std::to_string(samples_) + " samples per pixel, not 1 or 3");
    OFString meaning;
    if (data.findAndGetOFString(DCM_PhotometricInterpretation, meaning).bad())
      refuse("it holds no picture: PhotometricInterpretation is missing");
    // NOLINTNEXTLINE(readability-redundant-string-cstr): some builds of DCMTK have their own string type
    meaning_ = meaning.c_str();
    Sint32 frames = 1;
    if (data.tagExists(DCM_NumberOfFrames) && (data.findAndGetSint32(DCM_NumberOfFrames, frames).bad() || frames < 1))
      refuse("NumberOfFrames is not a number");
    if (frames > 1) refuse("it holds " + std::to_string(frames) + " frames; only files with one are read");
    if (!data.tagExists(DCM_PixelData)) refuse("it holds no pixels that are whole numbers (PixelData is missing)");
    header_.channels = meaning_.starts_with("MONOCHROME") ? 1 : 3;
    header_.bits = header_.channels == 1 && number(DCM_BitsStored, "BitsStored") > 8 ? 16 : 8;
  }

  /// DCMTK would fill missing pixels with zeros.
  void check_pixel_bytes(DcmDataset& data) const {
    DcmElement* pixels = nullptr;
    require(data.findAndGetElement(DCM_PixelData, pixels), "its pixels cannot be read");
    const bool halved = meaning_.starts_with("YBR_FULL_422") || meaning_.starts_with("YBR_PARTIAL_422");
    const int64_t wanted = (header_.height * header_.width * (halved ? 2 : samples_) * allocated_ + 7) / 8;
    if (static_cast<int64_t>(pixels->getLength()) < wanted)
      refuse("its pixels end early: " + std::to_string(pixels->getLength()) + " bytes of " + std::to_string(wanted));
  }

  /// The window that the file gives, or from its darkest to its brightest pixel.
  static void choose_window(DicomImage& picture) {
    if (picture.getWindowCount() == 0 || picture.setWindow(0) == 0) picture.setMinMaxWindow();
  }

  DcmFileFormat file_;
  DicomHeader header_{};
  int64_t allocated_ = 0;
  int64_t samples_ = 1;
  std::string meaning_;
};

namespace {

/// Runs `act`; if it throws, puts the message into `why` and returns an empty result.
template <typename Act>
auto told(char* why, size_t why_size, Act act) -> decltype(act()) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
    std::snprintf(why, why_size, "%s", kDicomOutOfMemory);
    return {};
  } catch (const std::exception& error) {
    std::snprintf(why, why_size, "%s", error.what());
    return {};
  }
}

DicomFile* open_file(const void* bytes, size_t size, DicomHeader* header, char* why, size_t why_size) {
  return told(why, why_size, [&] {
    prepare_dcmtk();
    auto* file = new DicomFile(bytes, size);
    *header = file->header();
    return file;
  });
}

bool decode_file(DicomFile* file, void* samples, size_t samples_size, char* why, size_t why_size) {
  return told(why, why_size, [&] {
    file->decode(samples, samples_size);
    return true;
  });
}

void close_file(DicomFile* file) { delete file; }

[[gnu::section(".note.dtrain"), gnu::used]] alignas(4) constexpr auto kStamp = module_stamp(DTRAIN_DICOM_STAMP);

}  // namespace
}  // namespace dtrain

extern "C" __attribute__((visibility("default")))
const dtrain::DicomModule dtrain_dicom_module = {dtrain::open_file, dtrain::decode_file, dtrain::close_file};
