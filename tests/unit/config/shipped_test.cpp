#include <fstream>
#include <sstream>

#include "dtrain/config/study_description.hpp"
#include "scratch_config.hpp"
#include "support/catch.hpp"
#include "support/source_folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

static Config shipped(const std::string& name, const std::vector<std::string>& overrides = {}) {
  for (const char* variable : {"NIH", "CHIPS", "MICROSCOPY", "IMAGENET", "CHEXPERT", "NNUNET"}) unsetenv(variable);
  return load_config({{source_folder() + "/configs/" + name + ".yaml"}, false, overrides});
}

TEST_CASE("every configuration that is shipped loads, and opens with data, devices and time") {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() + "/configs")) {
    if (entry.is_directory()) continue;
    const std::string name = entry.path().stem().string();
    INFO(name);
    ++seen;
    const Config config = shipped(name);
    CHECK(config.experiment.name == name);
    CHECK(config.experiment.model.weights.empty());
    CHECK(config.experiment.batch.global == 0);
    CHECK(config.experiment.model.outputs.has_value() == name.starts_with("chexnet"));
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string head = text.str().substr(0, text.str().find("\n\n"));
    for (const char* word : {"# Data: ", "# Devices: ", "# Expected time: "}) CHECK(holds(head, word));
  }
  CHECK(seen == 12);
}

TEST_CASE(
    "every study that is shipped is read, whole and tiny, and says what is expected of it and where that is from") {
  const Variable folder("DTRAIN_STUDY", "/study");
  const Variable data("DTRAIN_STUDY_DATA", "/study/data");
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() + "/configs/studies")) {
    INFO(entry.path());
    ++seen;
    REQUIRE(is_study(entry.path()));
    const StudyDescription whole = read_study(entry.path(), false);
    const StudyDescription tiny = read_study(entry.path(), true);
    REQUIRE(whole.configurations.size() == 1);
    CHECK(std::filesystem::exists(whole.configurations.front()));
    CHECK((!whole.title.empty() && !whole.source.empty() && !whole.expected.empty()));
    CHECK((whole.sample && tiny.sample && tiny.sample->count < whole.sample->count));
    CHECK(tiny.ranks.back() <= 4);
    CHECK(tiny.ranks.size() <= whole.ranks.size());
  }
  CHECK(seen == 6);
}

TEST_CASE("chexnet is the paper's network on 14 labels, and ResNet-50 takes its place unchanged") {
  const Experiment e = shipped("chexnet").experiment;
  CHECK(e.model.outputs == 14);
  CHECK(e.batch.per_rank == 64);
  CHECK(e.data.split.by == SplitOptions::By::patient);
  CHECK(e.schedule.decay.name == DecayName::plateau);
  CHECK(e.schedule.warmup == Duration{1, Duration::Unit::epochs});
  CHECK(e.checkpoint.best_monitor == "valid.auroc");
  CHECK(shipped("chexnet", {"model.name=resnet50"}).experiment.model.kind == network_kind("resnet50"));
  const Experiment paper = shipped("chexnet_paper").experiment;
  CHECK(paper.model.outputs == 1);
  CHECK(paper.data.classes == std::vector<std::string>{"Pneumonia"});
  CHECK(paper.batch.per_rank == 16);
  CHECK(paper.checkpoint.best_monitor == "valid.loss");
  CHECK_FALSE(paper.checkpoint.best_is_max);
}

TEST_CASE("the other configurations hold their published settings") {
  const Experiment chips = shipped("chips_cnn").experiment;
  CHECK(chips.data.image.height == 500);
  CHECK(chips.optimizer.learning_rate == 5e-4);
  CHECK(chips.epochs == 50);
  CHECK(chips.data.split.valid == 0.15);
  CHECK(chips.data.split.seed == 123);
  CHECK(chips.loss.l2_kernels == 0.0015);
  const Experiment chexpert = shipped("chexpert").experiment;
  CHECK(chexpert.data.labels.empty());
  CHECK_FALSE(chexpert.data.split.given);
  CHECK(chexpert.data.chexpert.uncertain_labels.at("Atelectasis") == Uncertain::ones);
  const Experiment unet = shipped("unet_microscopy").experiment;
  CHECK(unet.data.image.width == 1024);
  CHECK(unet.schedule.warmup.amount == 0);
  CHECK(unet.schedule.decay.at.size() == 3);
  CHECK(unet.schedule.decay.factor == 0.5);
  const Experiment resnet = shipped("resnet50").experiment;
  CHECK(resnet.optimizer.learning_rate == 0.025);
  CHECK(resnet.optimizer.momentum == 0.9);
  CHECK(resnet.schedule.decay.name == DecayName::multistep);
  CHECK(resnet.schedule.decay.at.back() == Duration{80, Duration::Unit::epochs});
  CHECK(resnet.data.augment.random_crop_low == 0.08);
  CHECK_FALSE(resnet.optimizer.decay_norms);
  const Experiment modern = shipped("resnet50_modern").experiment;
  CHECK(modern.optimizer.learning_rate * 8 == 0.5);
  CHECK(modern.data.augment.trivial);
  CHECK(modern.checkpoint.best_monitor == "valid.ema_accuracy");
  const Experiment finetuned = shipped("chexnet_finetuned").experiment;
  CHECK(finetuned.schedule.decay.patience == 0);
  CHECK(finetuned.data.split.by == SplitOptions::By::patient);
  const Experiment nnunet = shipped("nnunet_2d").experiment;
  CHECK(nnunet.loss.deep_supervision);
  CHECK(nnunet.optimizer.nesterov);
  CHECK(nnunet.schedule.decay.name == DecayName::poly);
  for (const char* name : {"isbi2012", "dsb2018"}) {
    const Experiment few = shipped(name).experiment;
    CHECK(std::string(few.loss.kind->name) == "bce_dice");
    CHECK(few.data.image_mask.mask_values.size() == 1);
    CHECK(few.checkpoint.best_monitor == "valid.iou");
  }
  CHECK_FALSE(resnet.data.split.given);
  CHECK(shipped("quickstart").experiment.data.root ==
        (std::filesystem::path(source_folder()) / "sample/chips").lexically_normal().string());
}
