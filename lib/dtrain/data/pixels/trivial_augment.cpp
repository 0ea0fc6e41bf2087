#include "dtrain/data/pixels/trivial_augment.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <vector>

#include "dtrain/base/error.hpp"

namespace dtrain {

namespace {

// Place `bin` of torch.linspace(0, end, 31) in float32: counted from the nearer end, and rounded once, as there.
float on_line(float end, int bin) {
  const float step = end / static_cast<float>(kTrivialBins - 1);
  return bin < kTrivialBins / 2 ? step * static_cast<float>(bin)
                                : std::fma(-step, static_cast<float>(kTrivialBins - 1 - bin), end);
}

// The point of the picture that pixel (x, y) is taken from: x·a[0] + y·a[1] + a[2], x·a[3] + y·a[4] + a[5].
using Affine = std::array<double, 6>;

Affine turn_of(double degrees, const ByteField& picture) {
  const double cos = std::cos(degrees * std::numbers::pi / 180), sin = std::sin(degrees * std::numbers::pi / 180);
  const double x = static_cast<double>(picture.width) / 2, y = static_cast<double>(picture.height) / 2;
  return {cos, -sin, x - x * cos + y * sin, sin, cos, y - x * sin - y * cos};
}

Affine affine_of(const TrivialDraw& draw, const ByteField& picture) {
  const double amount = trivial_magnitude(draw);
  switch (draw.op) {
    case TrivialOp::shear_x:
      return {1, amount, 0, 0, 1, 0};
    case TrivialOp::shear_y:
      return {1, 0, 0, amount, 1, 0};
    case TrivialOp::translate_x:
      return {1, 0, -std::trunc(amount), 0, 1, 0};
    case TrivialOp::translate_y:
      return {1, 0, 0, 0, 1, -std::trunc(amount)};
    default:
      return turn_of(amount, picture);
  }
}

// Nearest pixel by Pillow's arithmetic, in 1/65536 of a pixel.
void move_pixels(const Affine& affine, const ByteField& picture) {
  const auto fixed = [](double value) { return static_cast<int64_t>(std::floor(value * 65536 + 0.5)); };
  const std::vector<uint8_t> from(picture.pixels.begin(), picture.pixels.end());
  const int64_t right_x = fixed(affine[0]), down_x = fixed(affine[1]);
  const int64_t right_y = fixed(affine[3]), down_y = fixed(affine[4]);
  const int64_t first_x = fixed(affine[2] + (affine[0] + affine[1]) * 0.5);
  const int64_t first_y = fixed(affine[5] + (affine[3] + affine[4]) * 0.5);
  auto out = picture.pixels.begin();
  for (int64_t y = 0; y < picture.height; ++y)
    for (int64_t x = 0; x < picture.width; ++x) {
      const int64_t at_x = (first_x + y * down_x + x * right_x) >> 16;
      const int64_t at_y = (first_y + y * down_y + x * right_y) >> 16;
      const bool reached = at_x >= 0 && at_x < picture.width && at_y >= 0 && at_y < picture.height;
      const auto at = static_cast<size_t>((at_y * picture.width + at_x) * picture.channels);
      for (int64_t c = 0; c < picture.channels; ++c) *out++ = reached ? from[at + static_cast<size_t>(c)] : uint8_t{0};
    }
}

// Pillow's Image.blend: from `plain` at 0 past `value` at 1.
uint8_t blended(int plain, int value, float factor) {
  const float mixed = static_cast<float>(plain) + factor * static_cast<float>(value - plain);
  return mixed <= 0 ? uint8_t{0} : mixed >= 255 ? uint8_t{255} : static_cast<uint8_t>(mixed);
}

// Pillow's conversion to "L": ITU-R 601 in 16 bits.
int grey_at(const ByteField& picture, size_t pixel) {
  if (picture.channels == 1) return picture.pixels[pixel];
  const uint8_t* p = &picture.pixels[3 * pixel];
  return (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16;
}

size_t pixels_of(const ByteField& picture) { return static_cast<size_t>(picture.height * picture.width); }

void change_color(const ByteField& picture, float factor) {
  if (picture.channels == 1 || picture.stacked) return;
  for (size_t i = 0; i < pixels_of(picture); ++i) {
    const int grey = grey_at(picture, i);
    for (size_t c = 0; c < 3; ++c) picture.pixels[3 * i + c] = blended(grey, picture.pixels[3 * i + c], factor);
  }
}

void change_contrast_by_channel(const ByteField& picture, float factor) {
  const auto channels = static_cast<size_t>(picture.channels);
  for (size_t c = 0; c < channels; ++c) {
    int64_t sum = 0;
    for (size_t i = c; i < picture.pixels.size(); i += channels) sum += picture.pixels[i];
    const auto mean = static_cast<int>(static_cast<double>(sum) / static_cast<double>(pixels_of(picture)) + 0.5);
    for (size_t i = c; i < picture.pixels.size(); i += channels)
      picture.pixels[i] = blended(mean, picture.pixels[i], factor);
  }
}

void change_contrast(const ByteField& picture, float factor) {
  if (picture.stacked) return change_contrast_by_channel(picture, factor);
  int64_t sum = 0;
  for (size_t i = 0; i < pixels_of(picture); ++i) sum += grey_at(picture, i);
  const auto mean = static_cast<int>(static_cast<double>(sum) / static_cast<double>(pixels_of(picture)) + 0.5);
  for (uint8_t& value : picture.pixels) value = blended(mean, value, factor);
}

// Away from or towards Pillow's SMOOTH: a 3 × 3 mean in which the pixel itself counts five times; edges stay.
void change_sharpness(const ByteField& picture, float factor) {
  if (picture.height < 3 || picture.width < 3) return;
  const std::vector<uint8_t> from(picture.pixels.begin(), picture.pixels.end());
  const int64_t row = picture.width * picture.channels;
  for (int64_t y = 1; y + 1 < picture.height; ++y)
    for (int64_t i = picture.channels; i < row - picture.channels; ++i) {
      const int64_t at = y * row + i;
      int sum = 4 * from[static_cast<size_t>(at)];
      for (const int64_t down : {-row, int64_t{0}, row})
        for (const int64_t right : {-picture.channels, int64_t{0}, picture.channels})
          sum += from[static_cast<size_t>(at + down + right)];
      picture.pixels[static_cast<size_t>(at)] = blended((2 * sum + 13) / 26, from[static_cast<size_t>(at)], factor);
    }
}

using Table = std::array<uint8_t, 256>;
using Histogram = std::array<int64_t, 256>;

// Pixels to their extremes: the darkest becomes 0, the brightest 255.
Table stretched(const Histogram& histogram) {
  const auto present = [](int64_t count) { return count > 0; };
  const auto low = std::find_if(histogram.begin(), histogram.end(), present) - histogram.begin();
  const auto high = 255 - (std::find_if(histogram.rbegin(), histogram.rend(), present) - histogram.rbegin());
  Table table;
  const double scale = high > low ? 255.0 / static_cast<double>(high - low) : 1;
  const double offset = high > low ? static_cast<double>(-low) * scale : 0;
  for (int i = 0; i < 256; ++i)
    table[static_cast<size_t>(i)] = static_cast<uint8_t>(std::clamp(static_cast<int>(i * scale + offset), 0, 255));
  return table;
}

// Grey values that are equally frequent, as far as whole values allow.
Table equalized(const Histogram& histogram) {
  int64_t all = 0, last = 0, values = 0;
  for (const int64_t count : histogram) {
    all += count;
    if (count == 0) continue;
    last = count;
    ++values;
  }
  const int64_t step = values > 1 ? (all - last) / 255 : 0;
  Table table;
  int64_t sum = step / 2;
  for (size_t i = 0; i < 256; ++i) {
    table[i] = static_cast<uint8_t>(step > 0 ? std::min<int64_t>(sum / step, 255) : static_cast<int64_t>(i));
    sum += histogram[i];
  }
  return table;
}

// Each channel by its own table.
void through_tables(const ByteField& picture, Table (*table_of)(const Histogram&)) {
  const auto channels = static_cast<size_t>(picture.channels);
  for (size_t c = 0; c < channels; ++c) {
    Histogram histogram{};
    for (size_t i = c; i < picture.pixels.size(); i += channels) ++histogram[picture.pixels[i]];
    const Table table = table_of(histogram);
    for (size_t i = c; i < picture.pixels.size(); i += channels) picture.pixels[i] = table[picture.pixels[i]];
  }
}

void change_values(const TrivialDraw& draw, const ByteField& picture) {
  const double amount = trivial_magnitude(draw);
  const auto factor = static_cast<float>(1 + amount);
  switch (draw.op) {
    case TrivialOp::brightness:
      for (uint8_t& value : picture.pixels) value = blended(0, value, factor);
      return;
    case TrivialOp::color:
      return change_color(picture, factor);
    case TrivialOp::contrast:
      return change_contrast(picture, factor);
    case TrivialOp::sharpness:
      return change_sharpness(picture, factor);
    case TrivialOp::posterize:
      for (uint8_t& value : picture.pixels) value &= static_cast<uint8_t>(0xFF << (8 - static_cast<int>(amount)));
      return;
    case TrivialOp::solarize:
      for (uint8_t& value : picture.pixels)
        if (value >= amount) value = static_cast<uint8_t>(255 - value);
      return;
    case TrivialOp::autocontrast:
      return through_tables(picture, stretched);
    case TrivialOp::equalize:
      return through_tables(picture, equalized);
    default:
      return;
  }
}

}  // namespace

double trivial_magnitude(const TrivialDraw& draw) {
  const auto turned = [&](float end) {
    const auto amount = static_cast<double>(on_line(end, draw.bin));
    return draw.negative ? -amount : amount;
  };
  switch (draw.op) {
    case TrivialOp::identity:
    case TrivialOp::autocontrast:
    case TrivialOp::equalize:
      return 0;
    case TrivialOp::translate_x:
    case TrivialOp::translate_y:
      return turned(32);
    case TrivialOp::rotate:
      return turned(135);
    case TrivialOp::posterize: {
      const auto bits = 8 - (draw.bin + 2) / 5;  // a whole number
      return static_cast<double>(bits);
    }
    case TrivialOp::solarize:
      return 255 - 8.5 * draw.bin;
    default:
      return turned(0.99F);
  }
}

bool moves_pixels(TrivialOp op) { return op >= TrivialOp::shear_x && op <= TrivialOp::rotate; }

void apply_trivial(const TrivialDraw& draw, const ByteField& picture) {
  check(static_cast<int64_t>(picture.pixels.size()) == picture.height * picture.width * picture.channels,
        "the picture has its size");
  check(draw.bin >= 0 && draw.bin < kTrivialBins, "a strength of TrivialAugment is one of 31");
  if (moves_pixels(draw.op))
    move_pixels(affine_of(draw, picture), picture);
  else
    change_values(draw, picture);
}

}  // namespace dtrain
