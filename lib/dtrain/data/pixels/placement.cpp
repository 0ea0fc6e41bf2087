#include "dtrain/data/pixels/placement.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"

// DTRAIN_VECTOR_CLONES comes from CMake's dtrain_vector_code().

namespace dtrain {

namespace {

// The canvas shows a box of the picture, stretched to fill it.
Fit cropped_fit(int64_t height, int64_t width, const ImageOptions& options, const AugmentDraw& draw) {
  const double canvas = static_cast<double>(options.width) / static_cast<double>(options.height);
  const double picture = static_cast<double>(width) / static_cast<double>(height);
  // The aspect of the box, with its sides as shares of the picture's.
  const double aspect = draw.crop_aspect * (options.resize == Resize::squash ? 1.0 : canvas / picture);
  const double area = std::min({draw.crop_area, aspect, 1 / aspect});
  const auto axis = [](int64_t input, int64_t onto, double share, double place) {
    const double resized = static_cast<double>(onto) / share;
    return AxisFit{input, resized, -place * (1 - share) * resized, onto};
  };
  return {axis(height, options.height, std::min(1.0, std::sqrt(area / aspect)), draw.crop_y),
          axis(width, options.width, std::min(1.0, std::sqrt(area * aspect)), draw.crop_x)};
}

// Enlarges about the middle of the canvas, then moves.
void move(AxisFit& fit, double scale, double translate) {
  if (scale == 1 && translate == 0) return;
  const auto canvas = static_cast<double>(fit.canvas);
  fit.resized *= scale;
  fit.offset = canvas * (0.5 + translate) - scale * (canvas / 2 - fit.offset);
}

bool is_warped(const AugmentDraw& draw) { return draw.rotate != 0 || draw.elastic > 0; }

// For both coordinates, in place: coordinate[x] = start + x·step, plus the bending (down[x], right[x]), rotated.
DTRAIN_VECTOR_CLONES
void bend_row(float y_start, float x_start, float cos, float sin, int32_t width, float* __restrict down,
              float* __restrict right) {
  for (int32_t x = 0; x < width; ++x) {
    const auto at = static_cast<float>(x);
    const float dy = down[x], dx = right[x];
    down[x] = (y_start + at * sin) + (dy * cos + dx * sin);
    right[x] = (x_start + at * cos) + (dx * cos - dy * sin);
  }
}

// Evaluates a cubic curve at pixels [begin, end) of a row, with t = (x + ½)·step − shift.
DTRAIN_VECTOR_CLONES
void cubic_row(float a, float b, float c, float d, float step, float shift, int32_t begin, int32_t end, float* out) {
  for (int32_t x = begin; x < end; ++x) {
    const float t = (static_cast<float>(x) + 0.5F) * step - shift;
    out[x] = d + t * (c + t * (b + t * a));
  }
}

// For each point: which four pixels of a piece [height × width] surround it, and its distance from the first.
DTRAIN_VECTOR_CLONES
void find_corners(int32_t height, int32_t width, int64_t count, float* __restrict down, float* __restrict right,
                  int32_t* __restrict index) {
  for (int64_t x = 0; x < count; ++x) {
    const float y_place = std::min(std::max(down[x], 0.0F), static_cast<float>(height - 1));
    const float x_place = std::min(std::max(right[x], 0.0F), static_cast<float>(width - 1));
    const int32_t row = std::min(static_cast<int32_t>(y_place), height - 2);
    const int32_t column = std::min(static_cast<int32_t>(x_place), width - 2);
    down[x] = y_place - static_cast<float>(row);
    right[x] = x_place - static_cast<float>(column);
    index[x] = row * width + column;
  }
}

template <int kChannels>
[[gnu::always_inline]] inline void sample_row(const float* __restrict piece, int32_t row, int32_t count,
                                              const float* down, const float* right, const int32_t* index,
                                              float* __restrict out) {
  const float* __restrict next_row = piece + row;
  for (int32_t x = 0; x < count; ++x) {
    for (int c = 0; c < kChannels; ++c) {
      const int32_t at = index[x] * kChannels + c;
      const float top = piece[at] + right[x] * (piece[at + kChannels] - piece[at]);
      const float bottom = next_row[at] + right[x] * (next_row[at + kChannels] - next_row[at]);
      out[x * kChannels + c] = top + down[x] * (bottom - top);
    }
  }
}

/// Rotation and bending, as a map from points of the canvas to those of the canvas without them.
class Warp {
 public:
  Warp(const AugmentDraw& draw, int64_t height, int64_t width)
      : height_(height),
        width_(width),
        cos_(std::cos(draw.rotate * std::numbers::pi / 180)),
        sin_(std::sin(draw.rotate * std::numbers::pi / 180)),
        y_pivot_(static_cast<double>(height) * (0.5 + draw.translate_y)),
        x_pivot_(static_cast<double>(width) * (0.5 + draw.translate_x)) {
    if (draw.elastic > 0) field_.emplace(draw, height, width);
  }

  /// The points that the pixels of row y are taken from, relative to (`y_origin`, `x_origin`).
  void row(int64_t y, double y_origin, double x_origin, std::vector<float>& down, std::vector<float>& right) const {
    if (field_) {
      field_->row(y, down.data(), right.data());
    } else {
      std::fill(down.begin(), down.end(), 0.0F);
      std::fill(right.begin(), right.end(), 0.0F);
    }
    const auto [y_start, x_start] = look(static_cast<double>(y) + 0.5, 0.5);
    bend_row(static_cast<float>(y_start - y_origin), static_cast<float>(x_start - x_origin), static_cast<float>(cos_),
             static_cast<float>(sin_), static_cast<int32_t>(width_), down.data(), right.data());
  }

  /// Of all points that pixels are taken from.
  struct Bounds {
    double top = 1e300, bottom = -1e300, left = 1e300, right = -1e300;
  };
  Bounds bounds() const {
    const double more = field_ ? static_cast<double>(field_->bound()) : 0;
    Bounds all;
    for (const double y : {-more, static_cast<double>(height_) + more})
      for (const double x : {-more, static_cast<double>(width_) + more}) {
        const auto [down, right] = look(y, x);
        all = {std::min(all.top, down), std::max(all.bottom, down), std::min(all.left, right),
               std::max(all.right, right)};
      }
    return all;
  }

 private:
  std::pair<double, double> look(double y, double x) const {
    y -= y_pivot_;
    x -= x_pivot_;
    return {y_pivot_ + x * sin_ + y * cos_, x_pivot_ + x * cos_ - y * sin_};
  }

  int64_t height_;
  int64_t width_;
  double cos_;
  double sin_;
  double y_pivot_;
  double x_pivot_;
  std::optional<ElasticField> field_;
};

// The range of canvas pixels needed for points in [low, high], limited to the picture with a black edge of two pixels:
// its first pixel, and the fit that makes it. At least two pixels.
std::pair<int64_t, AxisFit> piece_of(const AxisFit& fit, double low, double high) {
  const auto first_of_picture = static_cast<int64_t>(std::floor(fit.offset)) - 2;
  const auto end_of_picture = static_cast<int64_t>(std::ceil(fit.offset + fit.resized)) + 2;
  const auto clamped = [](double place) { return static_cast<int64_t>(std::clamp(place, -1e9, 1e9)); };
  const int64_t begin = std::clamp(clamped(std::floor(low - 1.5)), first_of_picture, end_of_picture - 2);
  const int64_t end = std::clamp(clamped(std::ceil(high + 1.5)), begin + 2, end_of_picture);
  return {begin, {fit.input, fit.resized, fit.offset - static_cast<double>(begin), end - begin}};
}

void to_grey(std::vector<float>& pixels) {
  const size_t count = pixels.size() / 3;
  for (size_t i = 0; i < count; ++i) pixels[i] = luma(&pixels[3 * i]);
  pixels.resize(count);
}

std::vector<float> resized(const Image& picture, const Fit& fit, const ImageOptions& options) {
  std::vector<float> pixels(static_cast<size_t>(fit.rows.canvas * fit.columns.canvas * picture.channels));
  resize_picture(picture, fit, options, pixels.data());
  if (picture.channels != 1 && options.channels == 1) to_grey(pixels);
  return pixels;
}

DTRAIN_VECTOR_CLONES
void sample_grey(const float* piece, int32_t row, int32_t count, const float* down, const float* right,
                 const int32_t* index, float* __restrict out) {
  sample_row<1>(piece, row, count, down, right, index, out);
}

DTRAIN_VECTOR_CLONES
void sample_colour(const float* piece, int32_t row, int32_t count, const float* down, const float* right,
                   const int32_t* index, float* __restrict out) {
  sample_row<3>(piece, row, count, down, right, index, out);
}

// The same for any number of channels.
void sample_channels(int64_t channels, const float* piece, int32_t row, int32_t count, const float* down,
                     const float* right, const int32_t* index, float* out) {
  const float* next_row = piece + row;
  for (int32_t x = 0; x < count; ++x)
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t at = index[x] * channels + c;
      const float top = piece[at] + right[x] * (piece[at + channels] - piece[at]);
      const float bottom = next_row[at] + right[x] * (next_row[at + channels] - next_row[at]);
      *out++ = top + down[x] * (bottom - top);
    }
}

}  // namespace

ElasticField::ElasticField(const AugmentDraw& draw, int64_t height, int64_t width)
    : height_(height), width_(width), grid_(draw.elastic_grid) {
  check(grid_ >= 2, "elastic_grid has a point at each edge");
  KeyedRandom random(draw.elastic_key, Purpose::augmentation_field, 0);
  const auto points = static_cast<size_t>((grid_ + 2) * (grid_ + 2));
  for (size_t i = 0; i < points; ++i) {
    down_.push_back(static_cast<float>(draw.elastic * random.normal()));
    right_.push_back(static_cast<float>(draw.elastic * random.normal()));
    bound_ = std::max({bound_, std::abs(down_.back()), std::abs(right_.back())});
  }
  bound_ *= 1.25F * 1.25F;  // the absolute values of the curve's weights add up to at most 1.25
}

void ElasticField::row(int64_t y, float* down, float* right) const {
  axis_row(down_, y, down);
  axis_row(right_, y, right);
}

// First along the columns, which gives one number for each column of points, then along the row.
void ElasticField::axis_row(const std::vector<float>& points, int64_t y, float* out) const {
  const auto pieces = static_cast<double>(grid_ - 1);
  const auto columns = static_cast<size_t>(grid_ + 2);
  const double place = (static_cast<double>(y) + 0.5) / static_cast<double>(height_) * pieces;
  const auto above = std::min(static_cast<int64_t>(place), grid_ - 2);
  const auto t = static_cast<float>(place - static_cast<double>(above));
  const float weights[4] = {t * (-0.5F + t * (1 - 0.5F * t)), 1 + t * t * (-2.5F + 1.5F * t),
                            t * (0.5F + t * (2 - 1.5F * t)), t * t * (-0.5F + 0.5F * t)};
  std::vector<float> line(columns, 0);
  for (size_t k = 0; k < 4; ++k)
    for (size_t i = 0; i < columns; ++i) line[i] += weights[k] * points[(static_cast<size_t>(above) + k) * columns + i];
  for (int64_t s = 0; s + 1 < grid_; ++s) {
    const float* p = line.data() + s;
    const auto edge = [&](int64_t piece) {
      const double at = static_cast<double>(piece) * static_cast<double>(width_) / pieces;
      return static_cast<int32_t>(std::clamp(std::ceil(at - 0.5), 0.0, static_cast<double>(width_)));
    };
    cubic_row(-0.5F * p[0] + 1.5F * p[1] - 1.5F * p[2] + 0.5F * p[3], p[0] - 2.5F * p[1] + 2 * p[2] - 0.5F * p[3],
              0.5F * (p[2] - p[0]), p[1], static_cast<float>(pieces / static_cast<double>(width_)),
              static_cast<float>(s), edge(s), edge(s + 1), out);
  }
}

Fit placed_fit(int64_t height, int64_t width, const ImageOptions& options, const AugmentDraw& draw) {
  Fit fit = draw.crop ? cropped_fit(height, width, options, draw) : fit_picture(height, width, options);
  move(fit.rows, draw.scale, draw.translate_y);
  move(fit.columns, draw.scale, draw.translate_x);
  return fit;
}

std::vector<float> place_picture(const Image& picture, const ImageOptions& options, const AugmentDraw& draw) {
  check(
      picture.channels == 1 || picture.channels == options.channels || (picture.channels == 3 && options.channels == 1),
      "a decoded picture has the channels of data.image, or is grey, or a colour that becomes grey");
  const Fit fit = placed_fit(picture.height, picture.width, options, draw);
  if (!is_warped(draw)) return resized(picture, fit, options);
  const Warp warp(draw, options.height, options.width);
  const Warp::Bounds bounds = warp.bounds();
  const auto [top, rows] = piece_of(fit.rows, bounds.top, bounds.bottom);
  const auto [left, columns] = piece_of(fit.columns, bounds.left, bounds.right);
  const int64_t channels = std::min(picture.channels, options.channels);
  if (rows.canvas * columns.canvas * channels > std::numeric_limits<int32_t>::max())
    throw ConfigError("data.augment.rotate and elastic are not possible with so large a data.image.size");
  const std::vector<float> piece = resized(picture, {rows, columns}, options);
  const auto width = static_cast<size_t>(options.width);
  std::vector<float> down(width), right(width);
  std::vector<int32_t> index(width);
  std::vector<float> out(static_cast<size_t>(options.height * options.width * channels));
  for (int64_t y = 0; y < options.height; ++y) {
    warp.row(y, static_cast<double>(top) + 0.5, static_cast<double>(left) + 0.5, down, right);
    find_corners(static_cast<int32_t>(rows.canvas), static_cast<int32_t>(columns.canvas), options.width, down.data(),
                 right.data(), index.data());
    const auto row = static_cast<int32_t>(columns.canvas * channels);
    const auto count = static_cast<int32_t>(options.width);
    float* to = out.data() + y * options.width * channels;
    if (channels == 1)
      sample_grey(piece.data(), row, count, down.data(), right.data(), index.data(), to);
    else if (channels == 3)
      sample_colour(piece.data(), row, count, down.data(), right.data(), index.data(), to);
    else
      sample_channels(channels, piece.data(), row, count, down.data(), right.data(), index.data(), to);
  }
  return out;
}

void place_mask(const Image& mask, const ImageOptions& options, const AugmentDraw& draw, int64_t classes,
                std::span<uint8_t> out) {
  check(static_cast<int64_t>(out.size()) == options.height * options.width, "the mask fits its place");
  const Fit fit = placed_fit(mask.height, mask.width, options, draw);
  uint8_t largest = 0;
  if (!is_warped(draw)) {
    const std::vector<int64_t> columns = nearest_pixels(fit.columns);
    auto place = out.begin();
    for (const int64_t y : nearest_pixels(fit.rows))
      for (const int64_t x : columns) {
        const bool reached = y >= 0 && x >= 0;
        *place = reached ? mask.bytes[static_cast<size_t>(y * mask.width + x)] : uint8_t{0};
        largest = std::max(largest, *place++);
      }
  } else {
    const Warp warp(draw, options.height, options.width);
    const auto y_scale = static_cast<float>(static_cast<double>(mask.height) / fit.rows.resized);
    const auto x_scale = static_cast<float>(static_cast<double>(mask.width) / fit.columns.resized);
    std::vector<float> down(static_cast<size_t>(options.width)), right(down.size());
    auto place = out.begin();
    for (int64_t y = 0; y < options.height; ++y) {
      warp.row(y, fit.rows.offset, fit.columns.offset, down, right);
      for (size_t x = 0; x < down.size(); ++x) {
        const float at_y = down[x] * y_scale, at_x = right[x] * x_scale;
        const bool reached =
            at_y >= 0 && at_x >= 0 && at_y < static_cast<float>(mask.height) && at_x < static_cast<float>(mask.width);
        *place =
            reached
                ? mask.bytes[static_cast<size_t>(static_cast<int64_t>(at_y) * mask.width + static_cast<int64_t>(at_x))]
                : uint8_t{0};
        largest = std::max(largest, *place++);
      }
    }
  }
  check(largest <= classes, "a mask holds known classes");
}

}  // namespace dtrain
