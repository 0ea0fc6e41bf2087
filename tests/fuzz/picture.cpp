#include "dtrain/io/pictures/image.hpp"
#include "input.hpp"

using namespace dtrain;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::read_or_refuse([&] {
    const ImageLimits limits{.max_pixels = 1 << 20};
    const ImageHeader header = read_image_header(fuzz::bytes_of(data, size), "fuzz", limits);
    const Image image = decode_image(fuzz::bytes_of(data, size), "fuzz", limits);
    check(image.height == header.height && image.width == header.width && image.channels == header.channels,
          "a picture is what its header says");
  });
}
