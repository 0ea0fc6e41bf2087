#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "dtrain/base/text.hpp"
#include "scratch_config.hpp"
#include "support/catch.hpp"
#include "support/source_folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

using Texts = std::map<std::string, std::string>;

Texts texts_of(const Config& config) {
  Texts texts;
  for (const auto& [key, value] : config.values) texts[key] = value.text;
  return texts;
}

Config again(const std::string& yaml) {
  const ScratchFolder folder;
  return load_config({{folder.write("config.yaml", yaml)}, false, {}});
}

const std::vector<std::vector<std::string>> kVariants = {
    {"data.format=synthetic"},
    {"data.format=synthetic", "task=multiclass", "loss.label_smoothing=0.1",
     "model={name: small_cnn, dropout: 0.25, outputs: 14, weights: w.safetensors}", "data.image.size=[64, 64]"},
    {"data.format=synthetic", "batch={global: 100, last: drop}",
     "distributed={logical_ranks: 6, threads: 2, backend: serial, bucket_mb: 12.5, watchdog: {warn: none, abort: 90 "
     "s}}"},
    {"data.format=image_folder", "data.root=/a b/\xC3\xA9 #1/$${x}",
     "data.classes=['1', 'true', 'a, b', 'c: d', \"tab\\t\\\"\"]",
     "optimizer={name: sgd, momentum: 0.9, nesterov: true, weight_decay: 1e-05}"},
    {"data.format=image_folder", "data.root=d", "data.split.folders={train: train, valid: ./d/val, test: ../t}",
     "schedule={warmup: 1.5 epochs, scale_with_ranks: sqrt, decay: {name: cosine, final: 0.01}}"},
    {"data.format=nih_cxr14", "data.root=/n", "data.labels=l.csv", "loss.pos_weight=balanced", "epochs=9",
     "schedule.decay={name: plateau, factor: 0.3, patience: 4, monitor: valid.auroc}",
     "data.split={valid: 0.2, by: patient}"},
    {"data.format=csv", "data.root=/n", "data.labels=../l.csv", "data.csv={label: f, separator: '|', group: p}",
     "optimizer={name: adadelta, rho: 0.8}", "epochs=9",
     "schedule={warmup: 100000 steps, decay: {name: step, every: 3 epochs}}"},
    {"data.format=csv", "data.root=/n", "data.labels=l.csv", "data.csv.labels=[a, b]",
     "loss={name: bce, pos_weight: [1, 2.5], l2_kernels: 0.1}", "optimizer.name=adagrad", "data.split={by: order}"},
    {"data.format=chexpert", "data.root=/n", "data.on_missing=skip",
     "data.chexpert={uncertain: zeros, uncertain_labels: {Pleural Effusion: ones, Edema: ignore}, unmentioned: ignore}",
     "data.split={fold: 2 of 5, test: 0.2, by: patient, stratify: true}"},
    {"data.format=image_mask", "data.root=/n", "model.name=unet"},
    {"data.format=image_mask", "data.root=/n", "model={name: unet, base_width: 4}",
     "data.image_mask={images: i, masks: /m, mask_values: {0: 1, 128: 2}}",
     "data.split.files={train: a.txt, valid: ./b.txt}", "schedule.decay={name: multistep, at: [10 steps, 20 steps]}",
     "checkpoint={every: 500 steps, keep: 1, best: {monitor: valid.dice, mode: max}}",
     "data.image={size: [64, 32], channels: 3, resize: pad}", "data.allow_links=true"},
};

}  // namespace

TEST_CASE("a printed configuration loads again to the same experiment, whole or minimal") {
  for (const std::vector<std::string>& variant : kVariants) {
    INFO(variant.back());
    const Config config = from_overrides(variant);
    const std::string whole = config_yaml(config, false, true);
    INFO(whole);
    const Config second = again(whole);
    CHECK(texts_of(second) == texts_of(config));
    CHECK(second.experiment.data.split.given == config.experiment.data.split.given);
    CHECK(config_yaml(second, false, false) == config_yaml(config, false, false));
    const std::string minimal = config_yaml(config, true, false);
    CHECK(minimal.size() < whole.size());
    CHECK(texts_of(again(minimal)) == texts_of(config));
  }
}

TEST_CASE("a value equal to its default is left out of the minimal form") {
  const Config config =
      from_overrides({"data.format=synthetic", "epochs=1", "optimizer={name: adagrad, eps: 1e-10, learning_rate: 0.5}",
                      "checkpoint.best.mode=max"});
  CHECK(config_yaml(config, true, false) ==
        "name: run\ndata:\n  format: synthetic\noptimizer:\n  name: adagrad\n  learning_rate: 0.5\n");
}

TEST_CASE("each line may say where its value came from") {
  const std::string yaml = config_yaml(from_text("data:\n  format: synthetic\n", {"seed=3"}), false, true);
  CHECK(holds(yaml, "# command line"));
  CHECK(holds(yaml, "t.yaml:2\n"));
  CHECK(holds(yaml, "# default"));
}

TEST_CASE("docs/configuration.md is what the schema says") {
  std::ifstream file(source_folder() + "/docs/configuration.md");
  std::stringstream text;
  text << file.rdbuf();
  INFO("regenerate it with: dtrain --print-schema=markdown > docs/configuration.md");
  CHECK((text.str() == config_markdown()));
}

TEST_CASE("the JSON schema knows every key, its choices and nothing else") {
  const nlohmann::json schema = nlohmann::json::parse(config_json_schema());
  CHECK(schema.at("$schema") == "https://json-schema.org/draft/2020-12/schema");
  for (const std::vector<std::string>& variant : kVariants)
    for (const auto& [key, text] : texts_of(from_overrides(variant))) {
      INFO(key);
      std::string pointer;
      for (const std::string& part : split_text(key, '.')) pointer += "/properties/" + part;
      CHECK(schema.contains(nlohmann::json::json_pointer(pointer + "/description")));
    }
  CHECK(schema["properties"]["optimizer"]["additionalProperties"] == false);
  CHECK(schema["properties"]["optimizer"]["properties"]["name"]["anyOf"][0]["enum"].size() == optimizers().size());
  CHECK(schema["properties"]["epochs"]["anyOf"][0]["minimum"] == 1);
}
