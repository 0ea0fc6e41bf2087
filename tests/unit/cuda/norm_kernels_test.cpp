// The kernels of norms, compiled for the CPU as in kernels_test.cpp: to the bit as plain loops over the same order of
// sums (support/host_norms.hpp), and those loops against the formulas in double.
#include "dtrain/cuda/norm_kernels.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/host_norms.hpp"
#include "support/sixteen_bits.hpp"
#include "unit/cuda/guarded.hpp"

using namespace dtrain;
using test::Guarded;

namespace {

/// A picture's rows in memory of its own, as each kind of number stores them, with gaps between them.
struct Picture {
  Picture(const NormShape& of, int64_t gap, unsigned seed, float centre = 0)
      : shape(of), stride(of.columns + gap), floats(room()), halves(room()) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> noise(centre, 1.5F);
    for (size_t i = 0; i < floats.size(); ++i) set(i, noise(generator));
  }

  size_t room() const { return static_cast<size_t>((shape.rows - 1) * stride + shape.columns); }
  void set(size_t i, float value) {
    floats.data()[i] = value;
    if (shape.value == NormValue::bfloat16) halves.data()[i] = test::nearest_bfloat16(value);
    if (shape.value == NormValue::float16) halves.data()[i] = test::nearest_float16(value);
  }
  double at(int64_t row, int64_t column) const {
    const auto i = static_cast<size_t>(row * stride + column);
    if (shape.value == NormValue::float32) return floats.data()[i];
    const uint16_t bits = halves.data()[i];
    return shape.value == NormValue::bfloat16 ? test::bfloat16_value(bits) : test::float16_value(bits);
  }
  void* data() {
    return shape.value == NormValue::float32 ? static_cast<void*>(floats.data()) : static_cast<void*>(halves.data());
  }
  NormInput in() { return {data(), stride}; }
  NormOutput out() { return {data(), stride}; }
  bool operator==(const Picture& other) const { return floats == other.floats && halves == other.halves; }
  bool margins_untouched() const { return floats.margins_untouched() && halves.margins_untouched(); }

  NormShape shape;
  int64_t stride;
  Guarded<float> floats;
  Guarded<uint16_t> halves;
};

Guarded<float> column_values(int64_t columns, unsigned seed, float centre) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> noise(centre - 0.5F, centre + 0.5F);
  std::vector<float> values(static_cast<size_t>(columns));
  for (float& value : values) value = noise(generator);
  return Guarded<float>(values);
}

/// All that a pass forward and back makes of one picture.
struct Passes {
  explicit Passes(const NormShape& shape, int64_t gap)
      : mean(column_values(shape.columns, 0, 0)),
        variance(mean),
        running_mean(column_values(shape.columns, 1, 0)),
        running_variance(column_values(shape.columns, 2, 1)),
        d_gamma(mean),
        d_beta(mean),
        total_gamma(column_values(shape.columns, 11, 0)),
        total_beta(column_values(shape.columns, 12, 0)),
        y(shape, gap, 3),
        d(shape, gap, 4),
        dx(shape, 0, 5) {}

  bool operator==(const Passes&) const = default;
  bool margins_untouched() const {
    return std::ranges::all_of(std::vector{&mean, &variance, &running_mean, &running_variance, &d_gamma, &d_beta,
                                           &total_gamma, &total_beta},
                               &Guarded<float>::margins_untouched) &&
           y.margins_untouched() && d.margins_untouched() && dx.margins_untouched();
  }

  NormRunning running() { return {running_mean.data(), running_variance.data()}; }

  Guarded<float> mean, variance, running_mean, running_variance, d_gamma, d_beta, total_gamma, total_beta;
  Picture y, d, dx;
};

/// The kernels behind the interface of the loops.
class Kernels final : public NormMath {
 public:
  void statistics(const NormShape& shape, NormInput x, float* mean, float* variance,
                  const NormRunning& running) const override {
    Guarded<float> parts(static_cast<size_t>(kernels::norm_parts(shape)));
    CHECK(kernels::norm_statistics(shape, x, parts.data(), mean, variance, running, nullptr) == cudaSuccess);
    CHECK(parts.margins_untouched());
  }
  void move_statistics(const NormShape& shape, const float* mean, const float* variance,
                       const NormRunning& running) const override {
    CHECK(kernels::norm_move(shape, mean, variance, running, nullptr) == cudaSuccess);
  }
  void normalise(const NormShape& shape, NormInput x, const NormColumns& norm, NormInput more,
                 NormOutput y) const override {
    CHECK(kernels::norm_normalise(shape, x, norm, more, y, nullptr) == cudaSuccess);
  }
  void rectify_back(const NormShape& shape, NormInput dy, NormInput x, const NormColumns& norm, NormInput result,
                    const NormGradient& d, float* d_gamma, float* d_beta) const override {
    Guarded<float> parts(static_cast<size_t>(kernels::norm_parts(shape)));
    CHECK(kernels::norm_rectify_back(shape, dy, x, norm, result, d, parts.data(), d_gamma, d_beta, nullptr) ==
          cudaSuccess);
    CHECK(parts.margins_untouched());
  }
  void centre_back(const NormShape& shape, NormInput given, bool rectified, NormInput x, const NormColumns& norm,
                   const float* d_gamma, const float* d_beta, NormOutput dx) const override {
    CHECK(kernels::norm_centre_back(shape, given, rectified, x, norm, d_gamma, d_beta, dx, nullptr) == cudaSuccess);
  }
};

/// What goes in.
struct Inputs {
  Inputs(const NormShape& of, int64_t gap)
      : shape(of),
        x(of, gap, 6, 20),
        more(of, 0, 7),
        dy(of, 0, 8),
        gamma(column_values(of.columns, 9, 1)),
        beta(column_values(of.columns, 10, 0)) {}

  NormColumns columns(const Passes& passes) const {
    return {gamma.data(), beta.data(), passes.mean.data(), passes.variance.data()};
  }
  Passes run(const NormMath& math, bool adds, int64_t gap) {
    Passes all(shape, gap);
    const bool moves = shape.rows > 1;
    math.statistics(shape, x.in(), all.mean.data(), all.variance.data(), moves ? all.running() : NormRunning());
    if (moves) math.move_statistics(shape, all.mean.data(), all.variance.data(), all.running());
    const NormColumns norm = columns(all);
    const NormInput none;
    math.normalise(shape, x.in(), norm, adds ? more.in() : none, all.y.out());
    const NormOutput d = adds ? all.d.out() : NormOutput();
    math.rectify_back(shape, dy.in(), x.in(), norm, adds ? all.y.in() : none, {.to = d}, all.d_gamma.data(),
                      all.d_beta.data());
    math.centre_back(shape, adds ? all.d.in() : dy.in(), adds, x.in(), norm, all.d_gamma.data(), all.d_beta.data(),
                     all.dx.out());
    return all;
  }

  NormShape shape;
  Picture x, more, dy;
  Guarded<float> gamma, beta;
};

// Around a strand, a piece and several pieces; around a warp and what adds up pieces; more pieces than strands of them.
const std::vector<std::pair<int64_t, int64_t>> kShapes = {{1, 1},    {2, 7},   {7, 8},    {9, 31},    {255, 32},
                                                          {256, 33}, {257, 9}, {600, 40}, {1100, 64}, {9000, 3}};

}  // namespace

TEST_CASE("the GPU's kernels of a norm with a ReLU have the bits of plain loops, whatever is stored and however") {
  const auto value = GENERATE(NormValue::float32, NormValue::bfloat16, NormValue::float16);
  const bool adds = GENERATE(false, true);
  for (const auto& [rows, columns] : kShapes) {
    const int64_t gap = rows % 2 == 0 ? 5 : 0;
    INFO(rows << " x " << columns << ", value " << static_cast<int>(value) << (adds ? ", with a sum" : ""));
    Inputs inputs({value, rows, columns}, gap);
    const Passes expected = inputs.run(test::host_norms(), adds, gap), found = inputs.run(Kernels(), adds, gap);
    CHECK(found == expected);
    CHECK(found.margins_untouched());
  }
}

TEST_CASE("the order of a norm's sums is as exact as float allows, also far from zero") {
  const int64_t rows = 1100, columns = 5;
  Inputs inputs({NormValue::float32, rows, columns}, 0);
  const bool adds = GENERATE(false, true);
  Passes found = inputs.run(test::host_norms(), adds, 0);
  for (int64_t c = 0; c < columns; ++c) {
    const auto i = static_cast<size_t>(c);
    const auto n = static_cast<double>(rows);
    double mean = 0, variance = 0, d_beta = 0, d_gamma = 0;
    for (int64_t r = 0; r < rows; ++r) mean += inputs.x.at(r, c) / n;
    for (int64_t r = 0; r < rows; ++r) variance += std::pow(inputs.x.at(r, c) - mean, 2) / n;
    CHECK(std::abs(found.mean.data()[i] - mean) < 1e-5);
    CHECK(std::abs(found.variance.data()[i] - variance) < 1e-5);
    const double inverse = 1 / std::sqrt(variance + 1e-5), gamma = inputs.gamma.data()[i], beta = inputs.beta.data()[i];
    const auto x_hat = [&](int64_t r) { return (inputs.x.at(r, c) - mean) * inverse; };
    const auto behind = [&](int64_t r) { return gamma * x_hat(r) + beta + (adds ? inputs.more.at(r, c) : 0); };
    const auto d = [&](int64_t r) { return behind(r) > 0 ? inputs.dy.at(r, c) : 0; };
    for (int64_t r = 0; r < rows; ++r) {
      d_beta += d(r);
      d_gamma += d(r) * x_hat(r);
    }
    CHECK(std::abs(found.d_beta.data()[i] - d_beta) < 1e-3);
    CHECK(std::abs(found.d_gamma.data()[i] - d_gamma) < 1e-3);
    double most = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const double dx = gamma * inverse * (d(r) - d_beta / n - x_hat(r) * d_gamma / n);
      most = std::max({most, std::abs(found.y.at(r, c) - std::max(0.0, behind(r))), std::abs(found.dx.at(r, c) - dx)});
      if (adds) CHECK(found.d.at(r, c) == d(r));
    }
    CHECK(most < 3e-5);
    const double before = Passes(inputs.shape, 0).running_variance.data()[i], unbiased = variance * n / (n - 1);
    const double moved = 0.9 * (0.9 * before + 0.1 * unbiased) + 0.1 * unbiased;  // twice
    CHECK(std::abs(found.running_variance.data()[i] - moved) < 1e-5);
  }
}

TEST_CASE("a gradient may be written over what it is made from, and NaN is passed on") {
  const NormShape shape{NormValue::float32, 300, 6};
  Inputs apart(shape, 0), over(shape, 0);
  apart.x.set(4, NAN);
  over.x.set(4, NAN);
  Passes passes = apart.run(Kernels(), true, 0);
  Guarded<float> d_gamma(size_t{6}), d_beta(size_t{6});
  const Kernels math;
  math.rectify_back(shape, over.dy.in(), over.x.in(), over.columns(passes), passes.y.in(), {.to = over.dy.out()},
                    d_gamma.data(), d_beta.data());
  CHECK(over.dy == passes.d);
  CHECK(d_gamma == passes.d_gamma);
  math.centre_back(shape, over.dy.in(), true, over.x.in(), over.columns(passes), d_gamma.data(), d_beta.data(),
                   over.dy.out());
  CHECK(over.dy == passes.dx);
  for (int64_t c = 0; c < 6; ++c) {
    CHECK(std::isnan(passes.mean.data()[c]) == (c == 4));
    CHECK(std::isnan(passes.y.at(17, c)) == (c == 4));
    CHECK(std::isnan(passes.dx.at(17, c)) == (c == 4));
  }
}

TEST_CASE("what a norm leaves of a gradient is weighted where that is wanted, and added to what is there") {
  const auto value = GENERATE(NormValue::float32, NormValue::bfloat16, NormValue::float16);
  const NormShape shape{value, 300, 33};
  Inputs inputs(shape, 4);
  Passes before = inputs.run(test::host_norms(), false, 4);
  const NormColumns norm = inputs.columns(before);
  using Kind = NormGradient::Kind;
  const auto left = [&](const NormMath& math, Kind kind) {
    Passes all(shape, 4);
    math.rectify_back(shape, inputs.dy.in(), inputs.x.in(), norm, {},
                      {kind, all.d.out(), all.total_gamma.data(), all.total_beta.data()}, all.d_gamma.data(),
                      all.d_beta.data());
    CHECK(all.margins_untouched());
    return all;
  };
  const Passes plain = left(Kernels(), Kind::plain), weighted = left(Kernels(), Kind::weighted),
               added = left(Kernels(), Kind::weighted_sum), none(shape, 4);
  CHECK(left(test::host_norms(), Kind::weighted) == weighted);
  CHECK(left(test::host_norms(), Kind::weighted_sum) == added);
  CHECK(weighted.d_gamma == plain.d_gamma);
  CHECK(plain.total_gamma == none.total_gamma);
  for (size_t c = 0; c < 33; ++c) {
    const float gamma = inputs.gamma.data()[c];
    CHECK(weighted.total_gamma.data()[c] == gamma * plain.d_gamma.data()[c]);
    CHECK(weighted.total_beta.data()[c] == gamma * plain.d_beta.data()[c]);
    CHECK(added.total_gamma.data()[c] == none.total_gamma.data()[c] + weighted.total_gamma.data()[c]);
    CHECK(added.total_beta.data()[c] == none.total_beta.data()[c] + weighted.total_beta.data()[c]);
  }
  const double exact = value == NormValue::float32 ? 1e-5 : 0.05;
  for (int64_t r = 0; r < shape.rows; ++r)
    for (int64_t c = 0; c < shape.columns; ++c) {
      const double expected = plain.d.at(r, c) * inputs.gamma.data()[static_cast<size_t>(c)];
      if (std::abs(weighted.d.at(r, c) - expected) > exact) FAIL("weighted: " << r << ", " << c);
      if (std::abs(added.d.at(r, c) - none.d.at(r, c) - expected) > exact) FAIL("added: " << r << ", " << c);
    }
}

namespace {

/// Floats that end where memory ends: to read the next one ends the program.
class AtTheEnd {
 public:
  explicit AtTheEnd(size_t count) : bytes_(count * sizeof(float)) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    readable_ = (bytes_ + page - 1) / page * page;
    all_ = readable_ + page;
    first_ = static_cast<char*>(mmap(nullptr, all_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(first_ != MAP_FAILED);
    REQUIRE(mprotect(first_ + readable_, page, PROT_NONE) == 0);
  }
  ~AtTheEnd() { munmap(first_, all_); }
  AtTheEnd(const AtTheEnd&) = delete;
  AtTheEnd& operator=(const AtTheEnd&) = delete;
  float* data() { return reinterpret_cast<float*>(first_ + readable_ - bytes_); }

 private:
  size_t bytes_, readable_ = 0, all_ = 0;
  char* first_ = nullptr;
};

}  // namespace

TEST_CASE("no kernel of a norm reads behind what it is given") {
  for (const auto& [rows, columns] : kShapes) {
    const NormShape shape{NormValue::float32, rows, columns};
    const auto count = static_cast<size_t>(rows * columns), width = static_cast<size_t>(columns);
    AtTheEnd x(count), more(count), dy(count), y(count), d(count), dx(count), gamma(width), beta(width), mean(width),
        variance(width), d_gamma(width), d_beta(width), total_gamma(width), total_beta(width);
    const auto in = [&, stride = columns](AtTheEnd& rows_of) { return NormInput{rows_of.data(), stride}; };
    const auto out = [&, stride = columns](AtTheEnd& rows_of) { return NormOutput{rows_of.data(), stride}; };
    const NormColumns norm{gamma.data(), beta.data(), mean.data(), variance.data()};
    const Kernels math;
    math.statistics(shape, in(x), mean.data(), variance.data(), {});
    math.normalise(shape, in(x), norm, in(more), out(y));
    math.rectify_back(shape, in(dy), in(x), norm, in(y),
                      {NormGradient::Kind::weighted_sum, out(d), total_gamma.data(), total_beta.data()}, d_gamma.data(),
                      d_beta.data());
    math.centre_back(shape, in(d), true, in(x), norm, d_gamma.data(), d_beta.data(), out(dx));
    CHECK(d_beta.data()[0] == 0);
  }
}

TEST_CASE("what a launch fails with is told by each of a norm's kernels") {
  const NormShape shape{NormValue::float32, 3, 2};
  Inputs inputs(shape, 0);
  Passes passes(shape, 0);
  Guarded<float> parts(static_cast<size_t>(kernels::norm_parts(shape)));
  const NormColumns norm = inputs.columns(passes);
  float *const mean = passes.mean.data(), *const variance = passes.variance.data();
  const auto ends = [&] {
    return std::vector<cudaError_t>{
        kernels::norm_statistics(shape, inputs.x.in(), parts.data(), mean, variance, {}, nullptr),
        kernels::norm_move(shape, mean, variance, passes.running(), nullptr),
        kernels::norm_normalise(shape, inputs.x.in(), norm, {}, passes.y.out(), nullptr),
        kernels::norm_rectify_back(shape, inputs.dy.in(), inputs.x.in(), norm, {}, {}, parts.data(),
                                   passes.d_gamma.data(), passes.d_beta.data(), nullptr),
        kernels::norm_centre_back(shape, inputs.dy.in(), false, inputs.x.in(), norm, passes.d_gamma.data(),
                                  passes.d_beta.data(), passes.dx.out(), nullptr)};
  };
  CHECK(ends() == std::vector(5, cudaSuccess));
  launches_end_with = cudaErrorLaunchOutOfResources;
  CHECK(ends() == std::vector(5, cudaErrorLaunchOutOfResources));
  launches_end_with = cudaSuccess;
}
