// The kernels of libdtrain_cuda.so, compiled for the CPU by this folder's stand-ins for CUDA's launch, index, shared
// memory and barrier (host_grid.hpp), against the CPU's own loops. That the GPU does what the stand-ins do is for
// tests/gpu to show.
#include "dtrain/cuda/kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "dtrain/cuda/norm_chunks.hpp"
#include "dtrain/device/flat_math.hpp"
#include "support/catch.hpp"
#include "unit/cuda/guarded.hpp"

using namespace dtrain;
using test::Guarded;

// Around a warp, around a block, several blocks, and more elements than a grid has threads (4096 blocks of 256).
static const std::vector<size_t> kSizes = {0, 1, 31, 32, 33, 255, 256, 257, 5000};
static constexpr size_t kBeyondTheGrid = size_t{4096} * 256 + 259;

static std::vector<size_t> sizes_and(size_t most) {
  std::vector<size_t> sizes = kSizes;
  sizes.push_back(most);
  return sizes;
}

static Guarded<float> noise(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values)
    value = std::ldexp(static_cast<float>(generator() % 2001) - 1000, static_cast<int>(generator() % 30) - 15);
  return Guarded<float>(values);
}

static kernels::Sum sum_of(const std::vector<int>& program, const std::vector<const float*>& inputs) {
  kernels::Sum sum{};
  std::copy(inputs.begin(), inputs.end(), sum.inputs);
  std::copy(program.begin(), program.end(), sum.program);
  sum.length = static_cast<int>(program.size());
  return sum;
}

TEST_CASE("the GPU's kernel adds as the CPU does, at every size") {
  for (const size_t size : sizes_and(kBeyondTheGrid)) {
    const Guarded<float> from = noise(size, 1);
    Guarded<float> expected = noise(size, 2);
    Guarded<float> into = noise(size, 2);
    host_math().add(expected.data(), from.data(), static_cast<int64_t>(size));
    CHECK(kernels::add(into.data(), from.data(), static_cast<int64_t>(size), nullptr) == cudaSuccess);
    INFO("of " << size);
    CHECK(into == expected);
    CHECK(into.margins_untouched());
  }
}

TEST_CASE("the GPU's kernel runs a sum's program as the CPU does, at every size") {
  constexpr int kAdd = FlatMath::kAdd;
  const std::vector<int> program = {3, 0, 1, kAdd, kAdd};  // 2 is not read
  for (const size_t size : sizes_and(kBeyondTheGrid)) {
    std::vector<Guarded<float>> inputs;
    for (unsigned i = 0; i < 4; ++i) inputs.push_back(noise(size, i));
    const std::vector<const float*> pointers = {inputs[0].data(), inputs[1].data(), nullptr, inputs[3].data()};
    Guarded<float> expected(size);
    Guarded<float> out(size);
    host_math().sum(program, 3, pointers, {expected.data()}, static_cast<int64_t>(size));
    CHECK(kernels::sum(sum_of(program, pointers), out.data(), static_cast<int64_t>(size), nullptr) == cudaSuccess);
    INFO("of " << size);
    CHECK(out == expected);
    CHECK(out.margins_untouched());
  }
}

TEST_CASE("the GPU's kernel may write a sum over any of its inputs") {
  const std::vector<int> program = {0, 1, FlatMath::kAdd, 2, FlatMath::kAdd};
  for (size_t over = 0; over < 3; ++over) {
    std::vector<Guarded<float>> inputs = {noise(257, 5), noise(257, 6), noise(257, 7)};
    const std::vector<const float*> pointers = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
    Guarded<float> expected(size_t{257});
    host_math().sum(program, 2, pointers, {expected.data()}, 257);
    kernels::sum(sum_of(program, pointers), inputs[over].data(), 257, nullptr);
    CHECK(inputs[over] == expected);
  }
}

// The program of a balanced tree over inputs [begin, end).
static void append_tree(std::vector<int>& program, int begin, int end) {
  if (end - begin == 1) {
    program.push_back(begin);
    return;
  }
  const int middle = (begin + end) / 2;
  append_tree(program, begin, middle);
  append_tree(program, middle, end);
  program.push_back(FlatMath::kAdd);
}

TEST_CASE("the GPU's kernel adds up the deepest and the widest trees that it allows") {
  std::vector<int> deepest(kernels::Sum::kMostDepth);
  for (int i = 0; i < kernels::Sum::kMostDepth; ++i) deepest[static_cast<size_t>(i)] = i;
  deepest.insert(deepest.end(), kernels::Sum::kMostDepth - 1, FlatMath::kAdd);
  std::vector<int> widest;
  append_tree(widest, 0, kernels::Sum::kMostInputs);
  for (const std::vector<int>& program : {deepest, widest}) {
    std::vector<Guarded<float>> inputs;
    std::vector<const float*> pointers;
    for (size_t i = 0; i < (program.size() + 1) / 2; ++i) inputs.push_back(noise(33, static_cast<unsigned>(i)));
    for (const Guarded<float>& input : inputs) pointers.push_back(input.data());
    Guarded<float> expected(size_t{33});
    Guarded<float> out(size_t{33});
    host_math().sum(program, kernels::Sum::kMostDepth, pointers, {expected.data()}, 33);
    kernels::sum(sum_of(program, pointers), out.data(), 33, nullptr);
    CHECK(out == expected);
  }
}

static const std::vector<UpdateRule> kRules = {
    UpdateRule::sgd,     UpdateRule::momentum, UpdateRule::nesterov, UpdateRule::adam,
    UpdateRule::adagrad, UpdateRule::adadelta, UpdateRule::rmsprop,  UpdateRule::rmsprop_momentum,
    UpdateRule::lion,    UpdateRule::lars,     UpdateRule::lamb};

// Weights, gradients and state of an update.
struct Updated {
  explicit Updated(size_t size) : parts{noise(size, 1), noise(size, 2), noise(size, 3), noise(size, 4)} {
    for (size_t part : {2U, 3U})  // squares are not negative
      for (size_t i = 0; i < size; ++i) parts[part].data()[i] = std::abs(parts[part].data()[i]);
  }
  UpdateSlices slices() {
    return {static_cast<int64_t>(parts[0].size()), parts[0].data(), parts[1].data(), parts[2].data(), parts[3].data()};
  }
  std::array<Guarded<float>, 4> parts;
  int32_t not_finite = 0;
};

static const UpdateFactors kFactors{.scale = 0.7F,
                                    .decay = 0.01F,
                                    .keep = 0.999F,
                                    .weight_decay = 0.02F,
                                    .rate = 0.01F,
                                    .momentum = 0.9F,
                                    .mean_in = 0.1F,
                                    .direction_in = 0.2F,
                                    .square_keep = 0.99F,
                                    .square_in = 0.01F,
                                    .mean_correction = 0.4F,
                                    .root_correction = 0.3F,
                                    .trust = 0.05F,
                                    .eps = 1e-6F};

static void check_update(UpdateRule rule, Updated& kernel, Updated& host) {
  host_math().update(rule, host.slices(), kFactors, &host.not_finite);
  CHECK(kernels::update(rule, kernel.slices(), kFactors, &kernel.not_finite, nullptr) == cudaSuccess);
  CHECK(kernel.not_finite == host.not_finite);
  for (size_t part = 0; part < 4; ++part) CHECK(kernel.parts[part] == host.parts[part]);
  for (const Guarded<float>& part : kernel.parts) CHECK(part.margins_untouched());
}

TEST_CASE("the GPU's kernel updates as the CPU does, by every rule and at every size") {
  for (const UpdateRule rule : kRules)
    for (const size_t size : sizes_and(rule == UpdateRule::adam ? kBeyondTheGrid : 5001)) {
      INFO("rule " << static_cast<int>(rule) << ", " << size << " floats");
      Updated kernel(size);
      Updated host(size);
      check_update(rule, kernel, host);
      CHECK(kernel.not_finite == 0);
    }
}

TEST_CASE("the GPU's kernels measure norms as the CPU does, and the update takes their ratio") {
  for (const UpdateRule rule : {UpdateRule::lars, UpdateRule::lamb})
    for (const size_t size : sizes_and(70'003)) {
      INFO("rule " << static_cast<int>(rule) << ", " << size << " floats");
      Updated kernel(size);
      Updated host(size);
      Guarded<double> sums(static_cast<size_t>(FlatMath::kMeasureRoom));
      std::array<double, 2> wanted{};
      host_math().measure(rule, host.slices(), kFactors, wanted.data());
      CHECK(kernels::measure(rule, kernel.slices(), kFactors, sums.data(), nullptr) == cudaSuccess);
      CHECK(sums.margins_untouched());
      for (size_t part = 0; part < 4; ++part) CHECK(kernel.parts[part] == host.parts[part]);
      for (size_t i : {0U, 1U}) CHECK(sums.data()[i] == Approx(wanted[i]).epsilon(1e-12));
      std::copy(wanted.begin(), wanted.end(), sums.data());  // added up in another order
      UpdateSlices theirs = host.slices(), ours = kernel.slices();
      theirs.sums = ours.sums = sums.data();
      host_math().update(rule, theirs, kFactors, &host.not_finite);
      CHECK(kernels::update(rule, ours, kFactors, &kernel.not_finite, nullptr) == cudaSuccess);
      for (size_t part = 0; part < 4; ++part) CHECK(kernel.parts[part] == host.parts[part]);
    }
}

TEST_CASE("the GPU's kernel notes what is not finite, wherever it is") {
  for (const size_t place : {0U, 31U, 255U, 256U, 511U})
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
      for (const size_t part : {0U, 1U}) {
        Updated kernel(512);
        Updated host(512);
        for (Updated* updated : {&kernel, &host}) updated->parts[part].data()[place] = bad;
        check_update(UpdateRule::sgd, kernel, host);
        CHECK(kernel.not_finite == 1);
      }
}

// The order of additions in kernels.cu, one after another: term i goes to lane i mod 256, and the lanes are added up in
// a tree.
template <typename Term>
static double in_lanes(size_t count, Term term) {
  std::vector<double> lanes(256);
  for (size_t i = 0; i < count; ++i) lanes[i % 256] = lanes[i % 256] + term(i);
  for (size_t half = 128; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] = lanes[lane] + lanes[lane + half];
  return lanes[0];
}

// Squares of chunks of 16,384, then the chunks' sums.
static double in_chunks(const float* values, size_t count) {
  std::vector<double> parts;
  for (size_t begin = 0; begin < count; begin += 16'384)
    parts.push_back(in_lanes(std::min<size_t>(16'384, count - begin), [&](size_t i) {
      const double value = values[begin + i];
      return value * value;
    }));
  return in_lanes(parts.size(), [&](size_t i) { return parts[i]; });
}

// As the module does it.
static std::vector<double> sums_of_squares(const Guarded<float>& values, const std::vector<Range>& ranges,
                                           int64_t floats_per_chunk = kernels::kNormChunk) {
  const NormChunks chunks = cut_for_norm(ranges, floats_per_chunk);
  const Guarded<int64_t> bounds(chunks.bounds);
  const Guarded<int64_t> first(chunks.first);
  Guarded<double> parts(chunks.bounds.size() / 2);
  Guarded<double> sums(ranges.size());
  CHECK(kernels::sums_of_squares(values.data(), bounds.data(), static_cast<int>(parts.size()), parts.data(), nullptr) ==
        cudaSuccess);
  CHECK(kernels::sums_of_parts(parts.data(), first.data(), static_cast<int>(sums.size()), sums.data(), nullptr) ==
        cudaSuccess);
  CHECK(parts.margins_untouched());
  CHECK(sums.margins_untouched());
  return sums.values();
}

TEST_CASE("the GPU's kernels add up squares in their promised order, whatever lies beside a range") {
  const Guarded<float> values = noise(200'000, 11);
  for (const size_t size : {0, 1, 31, 32, 33, 255, 256, 257, 16'383, 16'384, 16'385, 150'000})
    for (const size_t begin : {0, 77}) {
      INFO(size << " floats from " << begin << " on");
      const auto first = static_cast<int64_t>(begin);
      const auto end = static_cast<int64_t>(begin + size);
      CHECK(sums_of_squares(values, {{0, first}, {first, end}, {end, end}, {end, 200'000}})[1] ==
            in_chunks(values.data() + begin, size));
    }
  CHECK(sums_of_squares(values, {}).empty());
}

TEST_CASE("the GPU's kernels add up more chunks than a block has threads") {
  const Guarded<float> values = noise(1000, 12);
  const std::vector<double> sum = sums_of_squares(values, {{3, 997}}, 3);  // 332 chunks
  std::vector<double> parts;
  for (size_t begin = 3; begin < 997; begin += 3)
    parts.push_back(in_lanes(std::min<size_t>(3, 997 - begin), [&](size_t i) {
      const double value = values.data()[begin + i];
      return value * value;
    }));
  CHECK(sum == std::vector{in_lanes(parts.size(), [&](size_t i) { return parts[i]; })});
}

TEST_CASE("a sum of squares on the GPU is not finite exactly when a value is not") {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const size_t place : {0U, 255U, 16'384U, 29'999U}) {
      Guarded<float> values = noise(30'000, 13);
      values.data()[place] = bad;
      const std::vector<double> sums = sums_of_squares(values, {{0, 10'000}, {10'000, 30'000}});
      CHECK(std::isfinite(sums[0]) == (place >= 10'000));
      CHECK(std::isfinite(sums[1]) == (place < 10'000));
    }
}

TEST_CASE("the GPU's kernels finish pictures and masks as the CPU does, turned and mirrored") {
  std::mt19937 generator(5);
  std::vector<uint8_t> bytes(size_t{7} * 7 * 5);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(generator() % 256);
  std::vector<uint8_t> classes(size_t{7} * 7);
  for (uint8_t& byte : classes) byte = static_cast<uint8_t>(generator() % 4);
  const Guarded<uint8_t> colour(bytes);
  const Guarded<uint8_t> mask(classes);
  const Guarded<float> grey = noise(49, 12);
  const Guarded<float> planes = noise(49 * 5, 14);
  const std::vector<PictureWalk> walks = {{0, 7, 1}, {6, 7, -1}, {6, -1, 7}, {48, -7, -1}};
  for (const int64_t channels : {1, 3, 2, 5}) {
    std::vector<RawPicture> pictures;
    std::vector<RawPicture> masks;
    for (const PictureWalk& walk : walks) {
      pictures.push_back({grey.data(), walk, 0, 1});
      pictures.push_back({mask.data(), walk, 1, 1});
      if (channels > 1) pictures.push_back({colour.data(), walk, 1, channels});
      if (channels > 1) pictures.push_back({planes.data(), walk, 0, channels});
      masks.push_back({mask.data(), walk, 1, 1});
    }
    const PictureForm form{7, 7, channels, {0.485F, 0.456F, 0.406F, 0.3F, 0.2F}, {4.3F, 4.4F, 4.5F, 4.6F, 4.7F}};
    for (const size_t count : {size_t{0}, size_t{1}, pictures.size()}) {
      Guarded<float> expected(count * 49 * static_cast<size_t>(channels));
      Guarded<float> out(expected.size());
      host_math().finish_pictures(form, pictures.data(), static_cast<int64_t>(count), expected.data());
      kernels::finish_pictures(form, pictures.data(), static_cast<int64_t>(count), out.data(), nullptr);
      CHECK(out == expected);
    }
    Guarded<float> expected(masks.size() * 3 * 49);
    Guarded<float> out(expected.size());
    host_math().finish_masks(form, masks.data(), static_cast<int64_t>(masks.size()), 3, expected.data());
    kernels::finish_masks(form, masks.data(), static_cast<int64_t>(masks.size()), 3, out.data(), nullptr);
    CHECK(out == expected);
    CHECK(out.margins_untouched());
  }
}

TEST_CASE("what a launch fails with is told by each of the GPU's kernels") {
  Guarded<float> from = noise(3, 1), into = noise(3, 2);
  Guarded<double> sums(static_cast<size_t>(FlatMath::kMeasureRoom));
  const Guarded<int64_t> bounds(std::vector<int64_t>{0, 1});
  const Guarded<uint8_t> mask(std::vector<uint8_t>{1});
  const RawPicture picture{from.data(), {0, 1, 1}, 0, 1}, classes{mask.data(), {0, 1, 1}, 1, 1};
  const PictureForm form{1, 1, 1, {0.5F}, {2.0F}};
  Updated updated(3);
  const auto ends = [&] {
    return std::vector<cudaError_t>{
        kernels::add(into.data(), from.data(), 3, nullptr),
        kernels::sum(sum_of({0}, {from.data()}), into.data(), 3, nullptr),
        kernels::update(UpdateRule::adam, updated.slices(), kFactors, &updated.not_finite, nullptr),
        kernels::measure(UpdateRule::lamb, updated.slices(), kFactors, sums.data(), nullptr),
        kernels::sums_of_squares(from.data(), bounds.data(), 1, sums.data(), nullptr),
        kernels::sums_of_parts(sums.data(), bounds.data(), 1, sums.data(), nullptr),
        kernels::finish_pictures(form, &picture, 1, into.data(), nullptr),
        kernels::finish_masks(form, &classes, 1, 1, into.data(), nullptr)};
  };
  CHECK(ends() == std::vector(8, cudaSuccess));
  launches_end_with = cudaErrorLaunchOutOfResources;
  CHECK(ends() == std::vector(8, cudaErrorLaunchOutOfResources));
  launches_end_with = cudaSuccess;
}
