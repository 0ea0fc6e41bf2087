#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "dtrain/optim/optimizer.hpp"
#include "gpu.hpp"
#include "support/host_norms.hpp"

using namespace dtrain;
using test::first_gpu;
using test::same_bits;

static at::Tensor wide_noise(int64_t numel) { return at::randn({numel}) * at::randn({numel}).mul(8).exp2(); }

TEST_CASE("sums on the GPU have the CPU's bits") {
  const auto gpu = first_gpu();
  if (!gpu) return;
  at::manual_seed(3);
  constexpr int64_t kCount = 1'000'003;
  std::vector<at::Tensor> host, device;
  std::vector<const float*> on_host, on_device;
  for (int i = 0; i < 5; ++i) {
    host.push_back(wide_noise(kCount));
    device.push_back(host.back().to(gpu->place));
    on_host.push_back(host.back().const_data_ptr<float>());
    on_device.push_back(device.back().const_data_ptr<float>());
  }
  constexpr int kAdd = FlatMath::kAdd;
  const std::vector<int> program = {0, 1, kAdd, 2, 3, kAdd, kAdd, 4, kAdd};
  const at::Tensor expected = at::empty({kCount});
  const at::Tensor out = at::empty({kCount}, device[0].options());
  const at::Tensor copy = at::empty_like(out);
  host_math().sum(program, 3, on_host, {expected.mutable_data_ptr<float>()}, kCount);
  gpu->math->sum(program, 3, on_device, {out.mutable_data_ptr<float>(), copy.mutable_data_ptr<float>()}, kCount);
  CHECK(same_bits(out, expected));
  CHECK(same_bits(copy, expected));
  gpu->math->add(device[0].mutable_data_ptr<float>(), device[1].const_data_ptr<float>(), kCount);
  CHECK(same_bits(device[0], host[0] + host[1]));
}

TEST_CASE("every optimizer's update on the GPU has the CPU's bits, and finds what is not finite") {
  const auto gpu = first_gpu();
  if (!gpu) return;
  at::manual_seed(4);
  for (const OptimizerKind* name : optimizers())
    for (const double momentum : {0.0, 0.9}) {
      OptimizerOptions options;
      options.kind = name;
      options.weight_decay = 0.01;
      if (reads(*name, "momentum")) {
        options.momentum = momentum;
        options.nesterov = momentum > 0;
      }
      const at::Tensor on_host = at::randn({70'001});
      const at::Tensor on_device = on_host.to(gpu->place);
      Optimizer host(options, on_host);
      Optimizer device(options, on_device, *gpu);
      for (int step = 0; step < 3; ++step) {
        const at::Tensor gradient = wide_noise(70'001);
        host.begin_update(0.01);
        host.update({0, 70'001}, gradient, 0.7F);
        device.begin_update(0.01);
        device.update({0, 1000}, gradient.to(gpu->place), 0.7F);
        device.update({1000, 70'001}, gradient.to(gpu->place), 0.7F);
        CHECK(device.not_finite().item<int32_t>() == 0);
      }
      CHECK(same_bits(on_device, on_host));
      for (size_t i = 0; i < host.state().size(); ++i)
        CHECK(same_bits(device.state()[i].values, host.state()[i].values));
      at::Tensor bad = at::zeros({70'001});
      bad[69'999] = std::numeric_limits<float>::infinity();
      device.begin_update(0.01);
      device.update({0, 70'001}, bad.to(gpu->place));
      CHECK_FALSE(device.not_finite().item<int32_t>() == 0);
    }
}

TEST_CASE("pictures and masks finished on the GPU have the CPU's bits") {
  const auto gpu = first_gpu();
  if (!gpu) return;
  const at::Tensor bytes = at::randint(0, 256, {2, 20, 20, 3}, at::kByte);
  const at::Tensor floats = at::rand({2, 20, 20, 1});
  const at::Tensor masks = at::randint(0, 4, {2, 20, 20}, at::kByte);
  const std::vector<PictureWalk> walks = {{0, 20, 1}, {19, 20, -1}, {19, -1, 20}, {399, -20, -1}};
  const PictureForm form{20, 20, 3, {0.485F, 0.456F, 0.406F}, {4.3F, 4.4F, 4.5F}};
  const auto results = [&](const Device& device) {
    const std::vector<at::Tensor> there = {bytes.to(device.place), floats.to(device.place), masks.to(device.place)};
    const auto at = [&](int tensor, int64_t row) {
      return static_cast<const std::byte*>(there[static_cast<size_t>(tensor)][row].const_data_ptr());
    };
    std::vector<RawPicture> rows = {{at(0, 0), walks[0], 1, 3}, {at(1, 0), walks[1], 0, 1}, {at(0, 1), walks[2], 1, 3},
                                    {at(1, 1), walks[3], 0, 1}, {at(2, 0), walks[1], 1, 1}, {at(2, 1), walks[2], 1, 1}};
    const at::Tensor table =
        at::from_blob(rows.data(), {static_cast<int64_t>(rows.size() * sizeof(RawPicture))}, at::kByte)
            .clone()
            .to(device.place);
    const auto* first = static_cast<const RawPicture*>(table.const_data_ptr());
    const auto options = at::TensorOptions(at::kFloat).device(device.place);
    const at::Tensor images = at::empty({4, 20, 20, 3}, options);
    const at::Tensor planes = at::empty({2, 3, 20, 20}, options);
    device.math->finish_pictures(form, first, 4, images.mutable_data_ptr<float>());
    device.math->finish_masks(form, first + 4, 2, 3, planes.mutable_data_ptr<float>());
    return std::pair(images.cpu(), planes.cpu());
  };
  const auto [images, planes] = results({});
  const auto [gpu_images, gpu_planes] = results(*gpu);
  CHECK(same_bits(gpu_images, images));
  CHECK(same_bits(gpu_planes, planes));
  CHECK(planes.sum().item<float>() == masks.ne(0).sum().item<float>());
}

TEST_CASE("sums of squares on the GPU are right, range by range, and the same every time") {
  const auto gpu = first_gpu();
  if (!gpu) return;
  const at::Tensor values = at::randn({100'000}).to(gpu->place);
  const std::vector<Range> ranges = {{0, 1}, {1, 77}, {77, 77}, {100, 100'000}};
  const auto sums = gpu->math->sums_of_squares(values.const_data_ptr<float>(), ranges);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const at::Tensor exact = values.slice(0, ranges[i].begin, ranges[i].end).to(at::kDouble).square().sum();
    CHECK(sums[i] == Approx(exact.item<double>()).epsilon(1e-12));
  }
  CHECK(gpu->math->sums_of_squares(values.const_data_ptr<float>(), ranges) == sums);
}

TEST_CASE("norms with a ReLU on the GPU have the bits of plain loops on the CPU") {
  const auto gpu = first_gpu();
  if (!gpu) return;
  const auto [type, value] =
      GENERATE(std::pair(at::kFloat, NormValue::float32), std::pair(at::kBFloat16, NormValue::bfloat16),
               std::pair(at::kHalf, NormValue::float16));
  const bool adds = GENERATE(false, true);
  constexpr int64_t kRows = 20'011, kColumns = 72;
  const NormShape shape{value, kRows, kColumns};
  // All that a pass forward and back makes, and a second way back that adds.
  const auto results = [&](const NormMath& math, const c10::Device& place) {
    at::manual_seed(6);
    const auto picture = [&] { return (2 * at::randn({kRows, kColumns}) + 1).to(type).to(place); };
    const auto columns = [&] { return at::rand({kColumns}).to(place); };
    const auto in = [&](const at::Tensor& rows) { return NormInput{rows.const_data_ptr(), kColumns}; };
    const auto out = [&](const at::Tensor& rows) { return NormOutput{rows.mutable_data_ptr(), kColumns}; };
    const auto floats = [](const at::Tensor& of) { return of.mutable_data_ptr<float>(); };
    const at::Tensor x = picture(), more = picture(), dy = picture(), gamma = columns(), beta = columns();
    std::vector<at::Tensor> all;
    for (int i = 0; i < 4; ++i) all.push_back(picture());
    for (int i = 0; i < 8; ++i) all.push_back(columns());
    const at::Tensor &y = all[0], &d = all[1], &dx = all[2], &sum = all[3];
    const at::Tensor &mean = all[4], &variance = all[5], &d_gamma = all[6], &d_beta = all[7];
    math.statistics(shape, in(x), floats(mean), floats(variance), {floats(all[8]), floats(all[9])});
    const NormColumns norm{floats(gamma), floats(beta), floats(mean), floats(variance)};
    const NormInput none;
    math.normalise(shape, in(x), norm, adds ? in(more) : none, out(y));
    math.rectify_back(shape, in(dy), in(x), norm, adds ? in(y) : none, {.to = out(d)}, floats(d_gamma), floats(d_beta));
    math.centre_back(shape, adds ? in(d) : in(dy), adds, in(x), norm, floats(d_gamma), floats(d_beta), out(dx));
    math.rectify_back(shape, in(dy), in(x), norm, none,
                      {NormGradient::Kind::weighted_sum, out(sum), floats(all[10]), floats(all[11])}, floats(d_gamma),
                      floats(d_beta));
    for (at::Tensor& one : all) one = one.cpu();
    return all;
  };
  const std::vector<at::Tensor> expected = results(test::host_norms(), c10::kCPU),
                                found = results(gpu->module->norms(), gpu->place);
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO(i << " of " << c10::toString(type));
    CHECK(at::equal(found[i].view(at::kByte), expected[i].view(at::kByte)));
  }
}
