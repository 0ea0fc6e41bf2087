#include "dtrain/config/habits.hpp"

#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/config/schema.hpp"
#include "scratch_config.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using namespace dtrain::test;

TEST_CASE("other programs' names lead to keys that are here, or to a sentence, and none is a name of ours") {
  Experiment defaults;
  std::set<std::string> keys;
  std::set<std::string> ours;  // with the groups, at any depth
  for (const Key& key : describe(defaults)) {
    keys.insert(key.name);
    for (size_t end = key.name.find('.'); end != std::string::npos; end = key.name.find('.', end + 1))
      ours.insert(key.name.substr(0, end));
    ours.insert(key.name);
  }
  std::set<std::string> names;
  for (const Habit& habit : habits()) {
    INFO(habit.name);
    const std::string key = habit.key;
    if (key.empty())
      CHECK(std::string(habit.instead).starts_with("this version "));
    else
      CHECK(keys.contains(key.substr(0, key.find('='))));
    CHECK(names.insert(habit.name).second);
    CHECK_FALSE(ours.contains(habit.name));
  }
  for (const Group& group : groups())
    if (!group.name.empty()) CHECK(keys.contains(key_of_group(group.name)) != (group.name == "distributed"));
}

TEST_CASE("an option that is a key is told as one") {
  CHECK(option_as_key("--epochs", "5") == "epochs=5");
  CHECK(option_as_key("--lr", "0.1") == "optimizer.learning_rate=0.1");
  CHECK(option_as_key("-lr", "0.1") == "optimizer.learning_rate=0.1");
  CHECK(option_as_key("--batch-size", "64") == "batch.per_rank=64");
  CHECK(option_as_key("--Batch_Size", "") == "batch.per_rank=VALUE");
  CHECK(option_as_key("--auto-scale-batch-size", "power") == "batch.per_rank=auto");
  CHECK(option_as_key("--optimizer.momentum", "0.9") == "optimizer.momentum=0.9");
  CHECK(option_as_key("--momentum", "0.9") == "optimizer.momentum=0.9");
  CHECK(option_as_key("--optimizer", "sgd") == "optimizer.name=sgd");
  CHECK(option_as_key("--data-dir", "/my data") == "'data.root=/my data'");
  CHECK(option_as_key("--amp", "") == "precision=fp16");
  CHECK(option_as_key("--early-stopping", "5") == "early_stop.patience=5");
  CHECK(option_as_key("--patience", "3") == "early_stop.patience=3");
  CHECK(option_as_key("--img-size", "64") == "'data.image.size=[64, 64]'");
  CHECK(option_as_key("--gpus", "4").starts_with("this version leaves processes to the launcher"));
  CHECK(option_as_key("--learning-rte", "1").empty());
  CHECK(option_as_key("--learning-rte", "1", true) == "optimizer.learning_rate=1");
  CHECK(option_as_key("--frobnicate", "1", true).empty());
  CHECK(option_as_key("--", "1", true).empty());
}

TEST_CASE("keys of other programs are told with ours, or that this version has no such thing") {
  for (const auto& [typed, wanted] : std::vector<std::pair<std::string, std::string>>{
           {"lr=0.1", "(did you mean 'optimizer.learning_rate'?)"},
           {"batch_size=64", "(did you mean 'batch.per_rank'?)"},
           {"batch_size=auto", "(did you mean 'batch.per_rank'?)"},
           {"auto_scale_batch_size=true", "(did you mean 'batch.per_rank=auto'?)"},
           {"auto_find_batch_size=true", "(did you mean 'batch.per_rank=auto'?)"},
           {"train_micro_batch_size_per_gpu=auto", "(did you mean 'batch.per_rank'?)"},
           {"batch.per_rank=-1", "wants a whole number from 1 to 1000000, or auto, not '-1'"},
           {"batch.per_rank=max", "wants a whole number from 1 to 1000000, or auto, not 'max'"},
           {"trainer.max_epochs=5", "(did you mean 'epochs'?)"},
           {"optimizer.LR=0.1", "(did you mean 'optimizer.learning_rate'?)"},
           {"optimizer.type=sgd", "(did you mean 'optimizer.name'?)"},
           {"data.num_workers=4", "(did you mean 'data.loader.threads'?)"},
           {"scheduler.gamma=0.1", "(did you mean 'schedule.decay.factor'?)"},
           {"early_stopping=5", "(did you mean 'early_stop.patience'?)"},
           {"data.path=/x", "(did you mean 'data.root'?)"},
           {"data.split.train=0.8", "(did you mean 'data.split.valid'?)"},
           {"freeze_backbone=true", "(did you mean 'optimizer.groups'?)"},
           {"model.freeze=true", "(did you mean 'optimizer.groups'?)"},
           {"loss.class_weights=[1, 2]", "(did you mean 'loss.class_weight'?)"},
           {"loss.batch_dice=true", "(did you mean 'loss.dice'?)"},
           {"data.image_mask.mask_postfix=_mask", "(did you mean 'data.image_mask.mask_suffix'?)"},
           {"model.in_channels=4", "(did you mean 'data.image.channels'?)"},
           {"data.modalities=[t1, t2]", "(did you mean 'data.image.files'?)"},
           {"data.num_slices=3", "(did you mean 'data.image.slices'?)"},
           {"Epochs=5", "(did you mean 'epochs'?)"},
           {"optimizer=adam", "(did you mean 'optimizer.name'?)"},
           {"data.image.n=1", "unknown key 'data.image.n'"},
           {"batch.size=32", "(did you mean 'batch.per_rank'?)"},
           {"batch={per_rank:4}", "'batch.per_rank:4'; YAML wants a space after the colon: 'per_rank: 4'"},
           {"device=gpu", "(did you mean 'cuda'?)"},
           {"precision=16", "(did you mean 'fp16'?)"},
           {"data.split.valid=20%", "(20 % is 0.2)"},
           {"data.split.valid=20", "(20 % is 0.2)"},
       })
    CHECK_THAT(errors_of("data: {format: synthetic}\n", {typed}), Catch::Contains(wanted));
}

TEST_CASE("words are offered whatever their case") {
  for (const auto& [typed, wanted] : std::vector<std::pair<std::string, std::string>>{
           {"optimizer.name=AdamW", "'adamw'"},
           {"optimizer.name=adamW", "'adamw'"},
           {"optimizer.name=SGD", "'sgd'"},
           {"optimizer.name=Adam", "'adam'"},
           {"model.name=ResNet50", "'resnet50'"},
           {"precision=FP16", "'fp16'"},
       })
    CHECK_THAT(errors_of("data: {format: synthetic}\n", {typed}), Catch::Contains("(did you mean " + wanted + "?)"));
}
