// Deep supervision: losses at several resolutions, and the networks that give logits for them.
#include "dtrain/model/deep_supervision.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_upsample_nearest_exact2d.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;
using test::loss_named;

namespace {

constexpr int64_t kPictures = 3, kClasses = 2, kSide = 8, kResolutions = 3;

// The numbers of tests/support/reference/deep_supervision.py.
std::vector<at::Tensor> made_up_logits(int64_t channels) {
  std::vector<at::Tensor> logits;
  for (int64_t r = 0; r < kResolutions; ++r) {
    const int64_t side = kSide >> r;
    at::Tensor one = at::empty({kPictures, channels, side, side}, at::kDouble);
    for (int64_t i = 0; i < one.numel(); ++i)
      one.mutable_data_ptr<double>()[i] = 2 * std::sin(0.7 * static_cast<double>(i + 1) + static_cast<double>(r));
    logits.push_back(one.requires_grad_());
  }
  return logits;
}

at::Tensor made_up_masks() {
  at::Tensor masks = at::zeros({kPictures, kClasses, kSide, kSide}, at::kFloat);
  for (int64_t n = 0; n < kPictures; ++n)
    for (int64_t y = 0; y < kSide; ++y)
      for (int64_t x = 0; x < kSide; ++x)
        if (const int64_t called = (3 * y + 5 * x + 7 * n + x * y) % (kClasses + 1); called > 0)
          masks[n][called - 1][y][x] = 1;
  return masks;
}

int64_t logits_of(const std::string& name) {
  LossOptions options;
  options.kind = loss_kind(name);
  return logits_for(options, Task::segmentation, kClasses);
}

// As the script prints them.
std::vector<double> figures_of(const std::string& name) {
  const std::vector<at::Tensor> logits = made_up_logits(logits_of(name));
  const at::Tensor loss = deep_per_sample(loss_named(name), logits, made_up_masks()).mean();
  loss.backward();
  std::vector<double> figures = {loss.item<double>()};
  for (const at::Tensor& one : logits) {
    const at::Tensor gradient = one.grad().flatten(), place = at::arange(gradient.numel(), at::kDouble);
    figures.push_back((gradient * place.cos()).sum().item<double>());
    figures.push_back((gradient * place.square().cos()).sum().item<double>());
  }
  return figures;
}

void check_figures(const std::string& name, const std::vector<double>& wanted) {
  const std::vector<double> ours = figures_of(name);
  CAPTURE(name);
  REQUIRE(ours.size() == wanted.size());
  for (size_t i = 0; i < ours.size(); ++i)
    CHECK(std::abs(ours[i] - wanted[i]) < 1e-10 * std::max(1.0, std::abs(wanted[i])));
}

// By PyTorch 2.11 in float64: the loss, and two projections of the gradient at each resolution.
const std::map<std::string, std::vector<double>> kByPyTorch = {
    {"bce",
     {0.9101792930104493, 0.00017988135962419556, -0.011128267651290576, -0.005581065719024, 0.015084838672452935,
      0.023596432692468, 0.018059168971087402}},
    {"cross_entropy",
     {1.629177583532389, 0.009408035024300716, -0.03493875102157829, 0.03265866922900434, 0.023554004519253,
      0.0033391739929435438, 0.010282247921950548}},
    {"dice",
     {0.6814552822976017, 0.0043378830374624176, 0.0031986616550041353, 0.014238760990054493, -0.001660191460792468,
      0.004079951741144914, 0.0029775602172862877}},
    {"bce_dice",
     {1.5096447637936736, 0.0015613251095155795, -0.013691943034605022, -0.008412656896685333, 0.016608957660102844,
      0.032903809772385204, 0.018420243529368722}},
    {"ce_dice",
     {2.310632865829991, 0.01374591806176314, -0.03174008936657416, 0.04689743021905883, 0.021893813058460526,
      0.007419125734088462, 0.013259808139236835}},
};

ModelOptions unet_of(int64_t levels) {
  ModelOptions options;
  options.kind = network_kind("unet");
  options.base_width = 2;
  options.levels = levels;
  return options;
}

NetworkShape shape_of(bool deep) {
  return {.channels = 1, .height = 64, .width = 32, .outputs = 3, .deep_supervision = deep};
}

}  // namespace

TEST_CASE("resolutions weigh 1, 1/2, 1/4 and so on, normalised") {
  CHECK(resolution_weights(1) == std::vector<double>{1});
  CHECK(resolution_weights(3) == std::vector<double>{1 / 1.75, 0.5 / 1.75, 0.25 / 1.75});
}

TEST_CASE("targets are halved by nearest neighbour at pixel centres") {
  const at::Tensor targets = at::arange(2 * 8 * 4, at::kFloat).view({1, 2, 8, 4});
  CHECK(at::equal(lowered_targets(targets, 0), targets));
  for (const int64_t halvings : {1, 2}) {
    const at::Tensor lowered = lowered_targets(targets, halvings);
    CHECK(at::equal(lowered, at::_upsample_nearest_exact2d(targets, {8 >> halvings, 4 >> halvings})));
  }
}

TEST_CASE("each loss at three resolutions is PyTorch's") {
  for (const auto& [name, figures] : kByPyTorch) check_figures(name, figures);
}

TEST_CASE("the PyTorch that is installed gives the same losses at three resolutions") {
  if (!test::python()) return test::skip("no Python with torch, torchvision and safetensors (DTRAIN_PYTHON)");
  const test::TemporaryFolder folder;
  const std::string printed = (folder.path() / "printed").string();
  REQUIRE(test::run_python("tests/support/reference/deep_supervision.py", "", printed));
  std::ifstream file(printed);
  size_t seen = 0;
  for (std::string line; std::getline(file, line); ++seen) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    std::vector<double> figures;
    for (double number = 0; words >> number;) figures.push_back(number);
    check_figures(name, figures);
  }
  CHECK(seen == kByPyTorch.size());
}

TEST_CASE("with the sums of the batch, passes together have the gradient of the whole, at each resolution") {
  for (const std::string name : {"dice", "bce_dice", "ce_dice"}) {
    CAPTURE(name);
    const Loss loss = loss_named(name);
    const at::Tensor masks = made_up_masks();
    const std::vector<at::Tensor> whole = made_up_logits(logits_of(name)), cut = made_up_logits(logits_of(name));
    deep_per_sample(loss, whole, masks).mean().backward();
    const at::Tensor sums = deep_sums(loss, cut, masks).sum(0).detach();
    REQUIRE(sums.sizes() == at::IntArrayRef({kResolutions, kClasses, 3}));
    const BatchSums batch{sums, at::full({}, kPictures, at::kDouble)};
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {1, 3}}) {
      std::vector<at::Tensor> part;
      for (const at::Tensor& one : cut) part.push_back(one.slice(0, begin, end));
      (deep_per_sample(loss, part, masks.slice(0, begin, end), batch).sum() / kPictures).backward();
    }
    for (size_t r = 0; r < whole.size(); ++r) CHECK(test::relative_error(cut[r].grad(), whole[r].grad()) < 1e-12);
  }
}

TEST_CASE("of one resolution it is the loss itself, bit for bit") {
  for (const std::string name : {"bce", "dice", "ce_dice"}) {
    const std::vector<at::Tensor> logits = {made_up_logits(logits_of(name)).front()};
    const Loss loss = loss_named(name);
    CHECK(at::equal(deep_per_sample(loss, logits, made_up_masks()), loss.per_sample(logits[0], made_up_masks())));
  }
}

TEST_CASE("a UNet has logits at lower resolutions only in training with deep supervision, and is the same otherwise") {
  const at::NoGradGuard no_grad;
  ModelOptions encoded = unet_of(4);
  encoded.encoder = network_kind("resnet18");
  for (const auto& [options, lower] : {std::pair{unet_of(2), 0}, {unet_of(3), 1}, {unet_of(4), 2}, {encoded, 3}}) {
    CAPTURE(options.levels, lower);
    CHECK(lower_logits_of(options) == lower);
    const auto plain = make_network(options, shape_of(false), 7), deep = make_network(options, shape_of(true), 7);
    const at::Tensor images = test::keyed_normal({2, 1, 64, 32}, 3);
    const std::vector<at::Tensor> logits = deep->forward_all(images);
    REQUIRE(logits.size() == static_cast<size_t>(lower + 1));
    for (int64_t r = 0; r <= lower; ++r)
      CHECK(logits[static_cast<size_t>(r)].sizes() == at::IntArrayRef({2, 3, 64 >> r, 32 >> r}));
    CHECK(at::equal(logits[0], deep->forward(images)));
    CHECK(at::equal(logits[0], plain->forward(images)));
    CHECK(plain->forward_all(images).size() == 1);
    CHECK(deep->named_parameters().size() == plain->named_parameters().size() + static_cast<size_t>(2 * lower));
    for (int64_t r = 0; r < lower; ++r) {
      const std::string name = "deep." + std::to_string(r) + ".weight";
      const auto heads = deep->head();
      CHECK(std::find(heads.begin(), heads.end(), name) != heads.end());
    }
    const auto layers = deep->layers(shape_of(true));
    CHECK(layers.size() == plain->layers(shape_of(false)).size() + static_cast<size_t>(lower));
  }
  ModelOptions other;
  other.kind = network_kind("resnet18");
  CHECK(lower_logits_of(other) == 0);
}
