#include "drawing/drawn_sample.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>

namespace dtrain {

Image drawn_picture(const at::Tensor& images, int64_t i, const ImageOptions& options) {
  const PictureForm form = picture_form(options);
  const at::Tensor planes = images.select(0, i).contiguous();
  const auto* values = planes.const_data_ptr<float>();
  const int64_t plane = form.height * form.width;
  Image picture{form.height, form.width, 3, 8, {}, {}};
  for (int64_t p = 0; p < plane; ++p)
    for (int64_t c = 0; c < 3; ++c) {
      const int64_t from = options.is_stacked() ? options.shown_channel() : form.channels == 1 ? 0 : c;
      const float pixel = values[from * plane + p] / form.factor[from] + form.mean[from];
      picture.bytes.push_back(static_cast<uint8_t>(std::lround(255 * std::clamp(pixel, 0.0F, 1.0F))));
    }
  return picture;
}

std::vector<uint8_t> drawn_classes(const at::Tensor& mask) {
  const at::Tensor host = mask.to(at::kFloat).contiguous();
  const auto* share = host.const_data_ptr<float>();
  const int64_t plane = host.size(1) * host.size(2);
  std::vector<uint8_t> classes(static_cast<size_t>(plane), 0);
  for (int64_t k = host.size(0) - 1; k >= 0; --k)
    for (int64_t p = 0; p < plane; ++p)
      if (share[k * plane + p] >= 0.5F) classes[static_cast<size_t>(p)] = static_cast<uint8_t>(k + 1);
  return classes;
}

}  // namespace dtrain
