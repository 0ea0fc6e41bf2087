#include "dtrain/data/generated/sample_pictures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "dtrain/base/error.hpp"

namespace dtrain {

namespace {

// What is drawn from each stream of Purpose::sample_set; patient, visit or number is also part of the key.
enum Stream : uint64_t { kBody, kVisit, kChip, kCell };

KeyedRandom sample_stream(uint64_t seed, Stream what, int64_t a, int64_t b = 0) {
  return KeyedRandom(seed, Purpose::sample_set, static_cast<uint64_t>(a) * 8 + what, static_cast<uint64_t>(b));
}

/// Brightness of one channel, meant as 0 … 255 but not clamped yet. Places are those of a picture of the kind's own
/// size.
struct Canvas {
  int64_t height;
  int64_t width;
  double scale_y;  // pixels in a unit of place
  double scale_x;
  std::vector<float> light;

  Canvas(PictureSize size, PictureSize own, float level)
      : height(size.height),
        width(size.width),
        scale_y(static_cast<double>(size.height) / static_cast<double>(own.height)),
        scale_x(static_cast<double>(size.width) / static_cast<double>(own.width)),
        light(static_cast<size_t>(size.height * size.width), level) {}

  double y_of(int64_t row) const { return static_cast<double>(row) / scale_y; }
  double x_of(int64_t column) const { return static_cast<double>(column) / scale_x; }

  /// Adds paint(dy, dx) to each pixel at most `reach` away from (y, x) in each direction.
  template <class Paint>
  void add(double y, double x, double reach, const Paint& paint) {
    const auto top = std::max<int64_t>(0, static_cast<int64_t>((y - reach) * scale_y));
    const auto bottom = std::min(height - 1, static_cast<int64_t>((y + reach) * scale_y));
    const auto left = std::max<int64_t>(0, static_cast<int64_t>((x - reach) * scale_x));
    const auto right = std::min(width - 1, static_cast<int64_t>((x + reach) * scale_x));
    for (int64_t row = top; row <= bottom; ++row)
      for (int64_t column = left; column <= right; ++column)
        light[static_cast<size_t>(row * width + column)] += static_cast<float>(paint(y_of(row) - y, x_of(column) - x));
  }

  /// Adds paint(y, x) to every pixel.
  template <class Paint>
  void add_everywhere(const Paint& paint) {
    for (int64_t row = 0; row < height; ++row)
      for (int64_t column = 0; column < width; ++column)
        light[static_cast<size_t>(row * width + column)] += static_cast<float>(paint(y_of(row), x_of(column)));
  }

  void add_noise(KeyedRandom& random, int strength) {
    std::vector<uint32_t> bits((light.size() + 3) / 4);
    random.fill(bits);
    for (size_t i = 0; i < light.size(); ++i) {
      const auto draw = static_cast<int>(bits[i / 4] >> (8 * (i % 4)) & 0xFF) - 128;
      light[i] += static_cast<float>(draw * strength) / 128;
    }
  }

  uint8_t at(size_t i) const { return static_cast<uint8_t>(std::clamp(light[i], 0.0F, 255.0F)); }
};

Image grey_image(const Canvas& canvas) {
  Image image{.height = canvas.height, .width = canvas.width, .channels = 1, .bits = 8, .bytes = {}, .words = {}};
  image.bytes.resize(canvas.light.size());
  for (size_t i = 0; i < image.bytes.size(); ++i) image.bytes[i] = canvas.at(i);
  return image;
}

// 1 inside (`distance` < 0), 0 outside, with an edge about `softness` wide.
double soft_edge(double distance, double softness) { return std::clamp(0.5 - distance / softness, 0.0, 1.0); }

// --- xray

void add_lungs(Canvas& chest, KeyedRandom& body) {
  const double level = body.uniform(60, 80);
  const double tall = body.uniform(78, 92);
  const double broad = body.uniform(38, 46);
  for (const double side : {-1.0, 1.0}) {
    const double x = 128 + side * body.uniform(54, 60);
    chest.add(124, x, tall + 6, [&](double dy, double dx) {
      return -level * soft_edge((std::hypot(dy / tall, dx / broad) - 1) * broad, 6);
    });
  }
  const double spacing = body.uniform(17, 21);
  chest.add_everywhere([&](double y, double column) {
    const double x = std::abs(column - 128);
    return 6 * std::cos(2 * std::numbers::pi * (y - 0.3 * x) / spacing) - 0.12 * x;
  });
}

// The mark of a finding: seven shapes, in two sizes.
double mark(int64_t finding, double dy, double dx) {
  const double radius = finding < 7 ? 12 : 22;
  const double distance = std::hypot(dy, dx);
  const double disc = soft_edge(distance - radius, 3);
  const double square = soft_edge(std::max(std::abs(dy), std::abs(dx)) - radius, 2);
  const auto wave = [](double along) { return std::sin(2 * std::numbers::pi * along / 10) > 0 ? 1.0 : 0.0; };
  switch (finding % 7) {
    case 0:
      return disc;
    case 1:
      return soft_edge(std::abs(distance - radius * 0.8) - 2.5, 2);
    case 2:
      return square * wave(dy);
    case 3:
      return square * wave(dx);
    case 4:
      return square * (wave(dy) == wave(dx) ? 1.0 : 0.0);
    case 5:
      return square * soft_edge(std::min(std::abs(dy), std::abs(dx)) - 3, 2);
    default:
      return soft_edge(std::abs(std::abs(dy) + std::abs(dx) - radius) - 3, 2);
  }
}

}  // namespace

Image xray_picture(uint64_t seed, int64_t patient, int64_t visit, const std::vector<int64_t>& findings,
                   PictureSize size) {
  KeyedRandom body = sample_stream(seed, kBody, patient);
  KeyedRandom random = sample_stream(seed, kVisit, patient, visit);
  Canvas chest(size, kXraySize, static_cast<float>(body.uniform(140, 160)));
  add_lungs(chest, body);
  for (const int64_t finding : findings) {
    check(finding >= 0 && finding < 14, "there are 14 findings");
    const double side = random.chance(0.5) ? -1 : 1;
    const double y = random.uniform(76, 172);
    const double x = 128 + side * random.uniform(46, 68);
    const double height = random.uniform(45, 60);
    chest.add(y, x, 30, [&](double dy, double dx) { return height * mark(finding, dy, dx); });
  }
  chest.add_noise(random, 12);
  return grey_image(chest);
}

// --- chips

static void add_defect(Canvas& chip, KeyedRandom& random) {
  const double y = random.uniform(34, 94);
  const double x = random.uniform(34, 94);
  if (random.chance(0.5)) {
    const double angle = random.uniform(0, std::numbers::pi);
    const double half = random.uniform(20, 34);
    chip.add(y, x, half + 3, [&](double dy, double dx) {
      const double along = dy * std::sin(angle) + dx * std::cos(angle);
      const double across = dy * std::cos(angle) - dx * std::sin(angle) + 2 * std::sin(along / 7);
      return 110 * soft_edge(std::abs(across) - 1.5, 1.5) * soft_edge(std::abs(along) - half, 3);
    });
  } else {
    const double radius = random.uniform(9, 15);
    const double phase = random.uniform(0, 2 * std::numbers::pi);
    chip.add(y, x, 1.4 * radius + 3, [&](double dy, double dx) {
      const double edge = radius * (1 + 0.25 * std::sin(3 * std::atan2(dy, dx) + phase));
      return -95 * soft_edge(std::hypot(dy, dx) - edge, 3);
    });
  }
}

Image chip_picture(uint64_t seed, int64_t number, bool defect, PictureSize size) {
  KeyedRandom random = sample_stream(seed, kChip, number);
  Canvas chip(size, kChipSize, static_cast<float>(random.uniform(110, 130)));
  const double pitch = random.uniform(15, 17);
  const double shift_y = random.uniform(0, pitch);
  const double shift_x = random.uniform(0, pitch);
  chip.add_everywhere([&](double row, double column) {
    const double y = std::fmod(row + shift_y, pitch) - pitch / 2;
    const double x = std::fmod(column + shift_x, pitch) - pitch / 2;
    return 28 * soft_edge(std::max(std::abs(y), std::abs(x)) - pitch / 3.5, 2);
  });
  if (defect) add_defect(chip, random);
  const std::array<double, 3> tint = {random.uniform(0.8, 0.95), random.uniform(0.95, 1.05), random.uniform(0.9, 1.1)};
  Image image{.height = chip.height, .width = chip.width, .channels = 3, .bits = 8, .bytes = {}, .words = {}};
  image.bytes.resize(chip.light.size() * 3);
  for (size_t c = 0; c < 3; ++c) {
    Canvas channel = chip;
    for (float& light : channel.light) light *= static_cast<float>(tint[c]);
    channel.add_noise(random, 8);
    for (size_t i = 0; i < channel.light.size(); ++i) image.bytes[3 * i + c] = channel.at(i);
  }
  return image;
}

// --- cells

CellPicture cell_picture(uint64_t seed, int64_t number, PictureSize size) {
  KeyedRandom random = sample_stream(seed, kCell, number);
  Canvas field(size, kCellSize, static_cast<float>(random.uniform(40, 60)));
  Canvas mask(size, kCellSize, 0);
  const double tilt_y = random.uniform(-30, 30);
  const double tilt_x = random.uniform(-30, 30);
  field.add_everywhere([&](double y, double x) { return tilt_y * y / 128 + tilt_x * x / 160; });
  const uint64_t cells = 6 + random.below(8);
  for (uint64_t i = 0; i < cells; ++i) {
    const double y = random.uniform(0, 128);
    const double x = random.uniform(0, 160);
    const double radius = random.uniform(6, 14);
    const double height = random.uniform(60, 100);
    field.add(y, x, radius + 3,
              [&](double dy, double dx) { return height * soft_edge(std::hypot(dy, dx) - radius, 3); });
    mask.add(y, x, radius + 3, [&](double dy, double dx) { return std::hypot(dy, dx) <= radius ? 255 : 0; });
  }
  field.add_noise(random, 24);
  return {grey_image(field), grey_image(mask)};
}

}  // namespace dtrain
