#include "dtrain/config/overrides.hpp"

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "support/catch.hpp"

using namespace dtrain;

namespace {

ConfigSources typed(const std::vector<std::string>& words) {
  return {.files = {}, .environment = false, .overrides = words};
}

std::string overrides_refusal(TrainedUse use, const std::vector<std::string>& words) {
  try {
    require_overrides_of(use, "dtrain x", typed(words));
  } catch (const Error& error) {
    CHECK(error.code() == exit_code::kConfig);
    return join(lines_of(error.what()), "\n");
  }
  return "";
}

}  // namespace

TEST_CASE("keys of the command line are told with their texts, groups key by key") {
  const auto keys = keys_of_overrides(typed({"optimizer={name: sgd, momentum: 0.5}", "model.name=unet", "nonsense=1"}));
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"optimizer.name", "sgd"}, {"optimizer.momentum", "0.5"}, {"model.name", "unet"}};
  CHECK(keys == wanted);
}

TEST_CASE("keys that only training reads are refused where a trained network is used, all at once") {
  for (const TrainedUse use : {TrainedUse::evaluate, TrainedUse::predict}) {
    CHECK(overrides_refusal(use, {"epochs=3", "data.image.size=[32, 32]", "schedule={warmup: 2 epochs}"}) ==
          "command line: epochs has no effect on dtrain x, which trains nothing; leave it out\n"
          "command line: schedule.warmup has no effect on dtrain x, which trains nothing; leave it out");
    for (const char* word :
         {"optimizer.name=sgd", "data.augment.hflip=0.5", "model.weights=a", "checkpoint.keep=2",
          "early_stop.patience=3", "ema.decay=0.9", "batch.accumulate=2", "output.tensorboard=true", "on_nan=skip",
          "model.dropout=0.1", "data.sampling=balanced", "data.distribute=samples", "data.loader.on_bad_sample=replace",
          "data.loader.max_bad=5", "batch.last=drop", "loss.l2_kernels=0.1"}) {
      INFO(word);
      CHECK(overrides_refusal(use, {word}).find("which trains nothing") != std::string::npos);
    }
    for (const char* word : {"data.image.size=[32, 32]", "data.root=x", "batch.per_rank=2", "device=cpu",
                             "data.classes=[a, b]", "data.image_mask.mask_values={255: 1}", "precision=bf16"})
      CHECK(overrides_refusal(use, {word}).empty());
  }
}

TEST_CASE("keys of labels have an effect on an evaluation, and none on a prediction") {
  for (const char* word : {"data.split.valid=0.2", "data.labels=t.csv", "data.on_missing=skip",
                           "loss.label_smoothing=0.1", "loss.gamma=1", "loss.pos_weight=balanced",
                           "loss.class_weight=balanced", "loss.dice=per_rank", "name=other", "output.dir=there"}) {
    INFO(word);
    CHECK(overrides_refusal(TrainedUse::evaluate, {word}).empty());
    CHECK(overrides_refusal(TrainedUse::predict, {word}).find("which evaluates nothing") != std::string::npos);
  }
}
