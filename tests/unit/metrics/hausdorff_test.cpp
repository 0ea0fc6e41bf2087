#include <algorithm>
#include <cmath>
#include <utility>

#include "dtrain/metrics/measure.hpp"
#include "dtrain/metrics/surface.hpp"
#include "support/catch.hpp"
#include "unit/metrics/test_tools.hpp"

using namespace dtrain;
using test::named;

namespace {

using Mask = std::vector<uint8_t>;
constexpr int64_t kHeight = 40;
constexpr int64_t kWidth = 53;

// Three discs and a bar, some of them cut by the picture's edge.
Mask shapes(int64_t seed) {
  Mask mask;
  for (int64_t y = 0; y < kHeight; ++y)
    for (int64_t x = 0; x < kWidth; ++x) {
      bool in = y == seed * 5 % kHeight && x >= seed * 3 % kWidth && x < seed * 3 % kWidth + 9;
      for (int64_t j = 0; j < 3; ++j) {
        const int64_t dy = y - (seed * 7 + j * 13) % kHeight;
        const int64_t dx = x - (seed * 11 + j * 17) % kWidth;
        const int64_t radius = 3 + (seed * 3 + j * 5) % 7;
        in = in || dy * dy + dx * dx <= radius * radius;
      }
      mask.push_back(in ? 1 : 0);
    }
  return mask;
}

// By the definition: every distance from each of these pixels to each of those.
double slow_95(const Mask& one, const Mask& other) {
  const auto surface = [](const Mask& mask) {
    std::vector<std::pair<int64_t, int64_t>> pixels;
    const auto in = [&](int64_t y, int64_t x) {
      return y >= 0 && y < kHeight && x >= 0 && x < kWidth && mask[static_cast<size_t>(y * kWidth + x)] != 0;
    };
    for (int64_t y = 0; y < kHeight; ++y)
      for (int64_t x = 0; x < kWidth; ++x)
        if (in(y, x) && (!in(y - 1, x) || !in(y + 1, x) || !in(y, x - 1) || !in(y, x + 1))) pixels.emplace_back(y, x);
    return pixels;
  };
  const auto from = surface(one);
  const auto to = surface(other);
  std::vector<double> distances;
  for (const auto& [y, x] : from) {
    double nearest = 1e9;
    for (const auto& [v, u] : to) nearest = std::min(nearest, std::hypot(y - v, x - u));
    distances.push_back(nearest);
  }
  std::sort(distances.begin(), distances.end());
  const double place = static_cast<double>(distances.size() - 1) * 0.95;
  const auto low = static_cast<size_t>(place);
  const double above = distances[std::min(low + 1, distances.size() - 1)];
  return distances[low] + (above - distances[low]) * (place - std::floor(place));
}

}  // namespace

// SciPy 1.17: surface = mask & ~ndimage.binary_erosion(mask), distances = ndimage.distance_transform_edt(~surface of
// the other) at the surface, numpy.percentile(distances, 95), the larger of both directions.
TEST_CASE("the 95 % Hausdorff distance is SciPy's, exactly") {
  const double scipy[] = {30.43827020866002,  16.857326790837295, 25.0,
                          16.76305461424021,  15.853683274060517, 11.35773137498807,
                          22.825424421026653, 14.272750403362462};
  for (int64_t seed = 1; seed <= 8; ++seed) {
    INFO("seed " << seed);
    CHECK(hausdorff_95(shapes(seed), shapes(seed + 20), kHeight, kWidth) == scipy[seed - 1]);
    CHECK(hausdorff_95(shapes(seed + 20), shapes(seed), kHeight, kWidth) == scipy[seed - 1]);
  }
}

TEST_CASE("the 95 % Hausdorff distance is that of all pairs of surface pixels") {
  for (int64_t seed = 1; seed <= 40; ++seed) {
    const Mask one = shapes(seed);
    const Mask other = shapes(3 * seed + 1);
    INFO("seed " << seed);
    CHECK(hausdorff_95(one, other, kHeight, kWidth).value() ==
          Approx(std::max(slow_95(one, other), slow_95(other, one))).epsilon(1e-12));
  }
}

TEST_CASE("equal masks have distance 0, single pixels theirs, and an empty mask has none") {
  const Mask one = shapes(3);
  CHECK(hausdorff_95(one, one, kHeight, kWidth) == 0.0);
  Mask a(12, 0), b(12, 0);
  a[0] = b[11] = 1;  // corners of 3 x 4
  CHECK(hausdorff_95(a, b, 3, 4) == std::sqrt(13.0));
  CHECK_FALSE(hausdorff_95(a, Mask(12, 0), 3, 4));
  CHECK_FALSE(hausdorff_95(Mask(12, 0), a, 3, 4));
  CHECK_FALSE(hausdorff_95(Mask(12, 0), Mask(12, 0), 3, 4));
}

TEST_CASE("distances are averaged over the pictures that have one, and the others are counted") {
  Predictions p;
  p.task = Task::segmentation;
  p.outputs = 2;
  p.loss.assign(24, 0);
  p.pixels.assign(48, {1, 1, 1});
  Groups groups{{}, 12, "patient"};
  double sum = 0;
  for (int64_t i = 0; i < 24; ++i) {
    groups.of.push_back(i / 2);
    p.distances.push_back(i < 3 ? std::nan("") : static_cast<double>(i));
    p.distances.push_back(std::nan(""));
    sum += i < 3 ? 0 : static_cast<double>(i);
  }
  const auto values = measure(Task::segmentation, {"cell", "wall"}, p, groups);
  const Measured& cell = named(values, "hausdorff95_px_cell").measured;
  const Measured& wall = named(values, "hausdorff95_px_wall").measured;
  const Measured& all = named(values, "hausdorff95_px").measured;
  CHECK(cell.value.value() == Approx(sum / 21));
  CHECK(cell.undefined == 3);
  CHECK_FALSE(wall.value);
  CHECK(wall.undefined == 24);
  CHECK(all.value == cell.value);
  CHECK(all.undefined == 27);
  CHECK(cell.confidence.groups == 11);
  REQUIRE(cell.confidence.interval);
  CHECK(cell.confidence.interval->method == "Student");
  // Of the ten whole patients and the one with a single picture, as a ratio of sums.
  double variance = 0;
  for (int64_t g = 1; g < 12; ++g) {
    const double count = g == 1 ? 1 : 2;
    const double of_group = g == 1 ? 3 : static_cast<double>(4 * g + 1);
    variance += std::pow((of_group - *cell.value * count) / 21, 2) * 11 / 10;
  }
  const double half = t_quantile(9) * std::sqrt(variance);  // by the squares of 1 and ten times 2
  CHECK(cell.confidence.interval->high - *cell.value == Approx(half));
  CHECK(all.confidence.interval->low == cell.confidence.interval->low);
}

TEST_CASE("without distances, as in training, there is no distance") {
  Predictions p;
  p.task = Task::segmentation;
  p.outputs = 1;
  p.loss = {0};
  p.pixels = {{1, 1, 1}};
  CHECK_FALSE(named(measure(Task::segmentation, {"cell"}, p), "hausdorff95_px").measured.value);
}
