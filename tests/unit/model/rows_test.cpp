// What the rows of networks and losses claim.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/model/network.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;
using test::make;
using test::square;

TEST_CASE("every network works on its smallest picture and refuses a smaller one") {
  for (const NetworkKind* kind : networks()) {
    INFO(kind->name);
    CHECK((kind->image_channels == 1 || kind->image_channels == 3));
    const int64_t least = kind->least_side;
    REQUIRE(least % kind->side_multiple == 0);
    const NetworkShape shape = square(*kind, least);
    const auto network = test::filled(test::options_of(kind), shape);
    network->eval();
    const at::NoGradGuard no_grad;
    const at::Tensor logits = network->forward(test::keyed_normal({2, shape.channels, least, least}, 3));
    CHECK(logits.isfinite().all().item<bool>());
    CHECK_THROWS_AS(make(kind, square(*kind, least - 1)), ConfigError);
    CHECK_THROWS_AS(make(kind, square(*kind, 0)), ConfigError);
    NetworkShape narrow = shape;
    narrow.width -= kind->side_multiple;
    CHECK_THROWS_WITH(make(kind, narrow), Catch::Contains(kind->name) && Catch::Contains("data.image.size"));
  }
}

TEST_CASE("every network takes sides of its multiple, and no others") {
  for (const NetworkKind* kind : networks()) {
    INFO(kind->name);
    const int64_t step = kind->side_multiple, least = kind->least_side;
    ModelOptions options;
    options.kind = kind;
    CHECK(wrong_size(options, least + step, least, "key").empty());
    for (int64_t more = 1; more < step; ++more) {
      CHECK(wrong_size(options, least + more, least, "key") ==
            "the " + kind->name + " needs a key of multiples of " + std::to_string(step) + ", not " +
                std::to_string(least + more) + " × " + std::to_string(least));
      CHECK_FALSE(wrong_size(options, least, least + more, "key").empty());
    }
    const NetworkShape shape{.channels = kind->image_channels, .height = least + step, .width = least, .outputs = 3};
    const auto network = kind->make(options, shape);  // drawing weights takes longer than all else
    network->eval();
    const at::NoGradGuard no_grad;
    const at::Tensor logits = network->forward(at::zeros({1, shape.channels, shape.height, shape.width}));
    std::vector<int64_t> sizes = {1, shape.outputs};
    if (kind->per_pixel) sizes.insert(sizes.end(), {shape.height, shape.width});
    CHECK(logits.sizes() == at::IntArrayRef(sizes));
    CHECK(kind->serves(Task::segmentation) == kind->per_pixel);
    CHECK(kind->serves(Task::multiclass) != kind->per_pixel);
  }
}

TEST_CASE("levels and encoders decide the multiple of a picture's sides and its channels") {
  ModelOptions options;
  options.kind = network_kind("unet");
  for (options.levels = 1; options.levels <= 6; ++options.levels) {
    INFO(options.levels);
    const int64_t step = int64_t{1} << options.levels;
    CHECK(side_multiple_of(options) == step);
    CHECK(image_channels_of(options) == 1);
    CHECK_THROWS_WITH(make_network(options, {1, step, step + step / 2, 1}, 1),
                      Catch::Contains("multiples of " + std::to_string(step)));
    options.base_width = 1;
    const NetworkShape shape{1, step, 2 * step, 3};
    const auto network = make_network(options, shape, 1);
    network->eval();
    const at::NoGradGuard no_grad;
    CHECK(network->forward(at::zeros({1, 1, step, 2 * step})).sizes() == at::IntArrayRef({1, 3, step, 2 * step}));
    CHECK(network->layers(shape).back().output == std::vector<int64_t>{3, step, 2 * step});
  }
  CHECK(encoders().size() == 5);
  options = test::options_of(network_kind("unet"), encoders().front());
  CHECK(side_multiple_of(options) == 32);
  CHECK(image_channels_of(options) == 3);
  CHECK_FALSE(wrong_size(options, 48, 64, "key").empty());
  for (const NetworkKind* encoder : encoders()) {
    INFO(encoder->name);
    options.encoder = encoder;
    const NetworkShape shape{2, 32, 64, 3};
    const auto network = options.kind->make(options, shape);
    network->eval();
    const at::NoGradGuard no_grad;
    CHECK(network->forward(at::zeros({1, 2, 32, 64})).sizes() == at::IntArrayRef({1, 3, 32, 64}));
    CHECK(network->layers(shape).back().output == std::vector<int64_t>{3, 32, 64});
  }
}

TEST_CASE("a network's passes depend on the random key exactly where its row says so", "[long]") {
  for (const NetworkKind* kind : networks())
    for (const double dropout : {0.5, 0.0}) {
      if (dropout == 0 && !reads(*kind, "dropout")) continue;
      ModelOptions options;
      options.kind = kind;
      options.dropout = dropout;
      INFO(kind->name << ", dropout " << dropout);
      const NetworkShape shape = square(*kind, std::max<int64_t>(kind->least_side, 32));
      const at::Tensor images = test::keyed_normal({4, shape.channels, shape.height, shape.width}, 5);
      const auto network = test::filled(options, shape);
      const auto logits = [&](int64_t step) {
        network->set_random_key(9, step, 0);
        return network->forward(images).detach();
      };
      const std::string key = random_key_of(options);
      CHECK(test::same_bits(logits(1), logits(1)));
      CHECK(test::same_bits(logits(1), logits(2)) == key.empty());
      if (!key.empty()) CHECK(reads(*kind, key));
    }
}

TEST_CASE("a network reads the keys of its row and no others") {
  for (const NetworkKind* kind : networks()) {
    INFO(kind->name);
    for (const std::string& key : kind->keys)
      CHECK((key == "base_width" || key == "levels" || key == "encoder" || key == "dropout"));
    const NetworkShape shape = square(*kind, std::max<int64_t>(kind->least_side, 32));
    ModelOptions options;
    options.kind = kind;
    const auto parameters = [&] { return kind->make(options, shape)->named_parameters(); };
    const auto before = parameters();
    const auto moves = [&](auto change) {
      options = {};
      options.kind = kind;
      change();
      const auto after = parameters();
      return !std::equal(before.begin(), before.end(), after.begin(), after.end(), [](const auto& a, const auto& b) {
        return a.name == b.name && a.tensor.sizes() == b.tensor.sizes();
      });
    };
    CHECK(moves([&] { options.base_width *= 2; }) == reads(*kind, "base_width"));
    CHECK(moves([&] { options.levels -= 1; }) == reads(*kind, "levels"));
    CHECK(moves([&] { options.encoder = encoders().front(); }) == reads(*kind, "encoder"));
    ModelOptions dropping;
    dropping.kind = kind;
    CHECK(random_key_of(dropping).empty() != reads(*kind, "dropout"));
  }
}

TEST_CASE("rows have names of their own, and others have no row") {
  std::set<std::string> names;
  for (const NetworkKind* kind : networks()) {
    CHECK(names.insert(kind->name).second);
    CHECK(network_kind(kind->name) == kind);
  }
  for (const LossKind* kind : losses()) CHECK(names.insert(kind->name).second);
  CHECK(ModelOptions{}.kind == networks().front());
  CHECK_THROWS_AS(network_kind("vgg"), InternalError);
}

TEST_CASE("every task has a loss, and auto is the first that serves it") {
  for (const Task task : {Task::multilabel, Task::multiclass, Task::segmentation}) {
    INFO(name_of(task));
    const LossKind& natural = natural_loss(task);
    CHECK(natural.serves(task));
    CHECK(&loss_in_use({}, task) == &natural);
    for (const LossKind* kind : losses()) {
      LossOptions options;
      options.kind = kind;
      CHECK(&loss_in_use(options, task) == kind);
      CHECK(wrong_task(*kind, task).empty() == kind->serves(task));
      if (!kind->serves(task)) CHECK_THROWS_WITH(Loss(options, task, {}), Catch::Contains("wants " + natural.name));
    }
  }
}

TEST_CASE("a loss reads the keys of its row and refuses the others") {
  for (const LossKind* kind : losses()) {
    INFO(kind->name);
    for (const std::string& key : kind->keys)
      CHECK((key == "pos_weight" || key == "class_weight" || key == "gamma" || key == "dice" ||
             key == "label_smoothing"));
    const Task task = kind->tasks.front();
    LossOptions plain, smooth;
    plain.kind = smooth.kind = kind;
    smooth.label_smoothing = 0.1;
    const std::vector<int64_t> shape =
        task == Task::segmentation ? std::vector<int64_t>{2, 3, 1, 1} : std::vector<int64_t>{2, 3};
    const at::Tensor logits = test::keyed_normal(shape, 1);
    const at::Tensor targets = task == Task::multiclass ? at::tensor({0, 2}, at::kLong)
                                                        : at::eye(3).slice(0, 0, 2).view(shape).slice(
                                                              1, 0, has_background(*kind, task, 3) ? 2 : 3);
    const at::Tensor before = Loss(plain, task, {}).per_sample(logits, targets);
    const auto changes = [&](const LossOptions& options, const std::vector<double>& weight) {
      return !test::same_bits(before, Loss(options, task, weight).per_sample(logits, targets));
    };
    if (reads(*kind, "label_smoothing")) {
      CHECK(changes(smooth, {}));
    } else {
      CHECK_THROWS_AS(Loss(smooth, task, {}), ConfigError);
    }
    if (reads(*kind, "pos_weight") || reads(*kind, "class_weight")) {
      CHECK(reads(*kind, "pos_weight") != reads(*kind, "class_weight"));
      CHECK(changes(plain, {2, 3, 4}));
    } else {
      CHECK_THROWS_AS(Loss(plain, task, {2, 3, 4}), ConfigError);
    }
    CHECK((kind->sums == nullptr) == (kind->of_sums == nullptr));
    CHECK(reads(*kind, "dice") == (kind->sums != nullptr));
    LossOptions steep = plain;
    steep.gamma = 5;
    CHECK(changes(steep, {}) == reads(*kind, "gamma"));
  }
}
