#include "dtrain/io/pictures/image.hpp"
#include "input.hpp"

using namespace dtrain;

// A DICOM file, read through the module as a run loads it. DCMTK itself is not instrumented: its errors show only if it
// crashes, or our side of the module does.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = fuzz::bytes_of(data, size);
  const ImageLimits limits{.max_pixels = 1 << 20};
  fuzz::read_or_refuse([&] { read_image_header(bytes, "fuzz.dcm", limits); });
  return fuzz::read_or_refuse([&] {
    const Image image = decode_image(bytes, "fuzz.dcm", limits);
    const auto samples = static_cast<size_t>(image.height * image.width * image.channels);
    check(image.bytes.size() + image.words.size() == samples, "a picture has all its samples");
  });
}
