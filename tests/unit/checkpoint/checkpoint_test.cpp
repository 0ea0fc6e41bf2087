#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/checkpoint/checkpoint_writer.hpp"
#include "dtrain/checkpoint/weights_origin.hpp"
#include "dtrain/io/files/file.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

static TrainingState some_state() {
  TrainingState state;
  state.epoch = 3;
  state.step = 420;
  state.cursor = 77;
  state.loss_sum = 0.1 + 0.2;
  state.correct = 5;
  state.skipped_steps = 2;
  state.replaced_samples = 3;
  state.coverage_sum = 0xfedcba9876543210ULL;
  state.timing.epoch_seconds = 1.5;
  state.elapsed_s = 1e-7;
  state.schedule = {0.123456789012345678, 1, 2};
  state.optimizer_updates = 3;
  state.loss_scale = {16384, 4};
  state.best_value = 0.75;
  state.best_epoch = 2;
  state.logical_ranks = 8;
  state.split_sha256 = std::string(64, 'a');
  state.manifest_sha256 = std::string(64, 'c');
  state.trained_on = "0123456789ab";
  state.classes = {"a", "b\"c"};
  state.config = {{"seed", "1"}, {"model.name", "unet"}};
  state.versions = {{"libtorch", "2.11.0"}};
  return state;
}

static void flip_bit(const std::string& path, std::streamoff at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char byte = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 4));
}

TEST_CASE("the state keeps every bit through JSON") {
  const TrainingState state = some_state();
  const TrainingState back = training_state_from_json(to_json(state), "x");
  CHECK(to_json(back) == to_json(state));
  CHECK(back.loss_sum == state.loss_sum);
  CHECK(back.coverage_sum == state.coverage_sum);
  CHECK(back.schedule.best == state.schedule.best);
  CHECK(back.skipped_steps == 2);
  CHECK(back.replaced_samples == 3);
  CHECK(back.loss_scale.scale == 16384);
  CHECK(back.loss_scale.good_steps == 4);
  CHECK(back.classes == state.classes);
  TrainingState fresh;
  fresh.logical_ranks = 1;
  CHECK(std::isnan(training_state_from_json(to_json(fresh), "x").best_value));
}

TEST_CASE("the least and the greatest loss scale are those that a step can leave") {
  TrainingState state = some_state();
  for (const double scale : {LossScale::kLeast, LossScale::kMost}) {
    state.loss_scale.scale = scale;
    CHECK(training_state_from_json(to_json(state), "x").loss_scale.scale == scale);
  }
}

TEST_CASE("a state that is not one is refused with the file's name") {
  CHECK_THROWS_WITH(training_state_from_json("{}", "file.safetensors"), Catch::Contains("file.safetensors"));
  CHECK_THROWS_AS(training_state_from_json("{", "f"), DataError);
}

TEST_CASE("a state that no run leaves is refused by the name of its field") {
  using Change = void (*)(TrainingState&);
  const std::vector<std::pair<std::string, Change>> cases = {
      {"epoch", [](TrainingState& s) { s.epoch = -1; }},
      {"epoch", [](TrainingState& s) { s.epoch = 1'000'000'001; }},
      {"step", [](TrainingState& s) { s.step = INT64_MAX; }},
      {"step", [](TrainingState& s) { s.step = 3; }},  // three epochs, and one that was begun
      {"cursor", [](TrainingState& s) { s.cursor = -1; }},
      {"without_loss", [](TrainingState& s) { s.without_loss = 78; }},
      {"correct", [](TrainingState& s) { s.correct = 78; }},
      {"correct", [](TrainingState& s) { s.correct = -1; }},
      {"skipped_steps", [](TrainingState& s) { s.skipped_steps = 78; }},
      {"replaced_samples", [](TrainingState& s) { s.replaced_samples = INT64_MIN; }},
      {"cursor", [](TrainingState& s) { s.cursor = s.correct = s.skipped_steps = 0; }},
      {"data_wait_s", [](TrainingState& s) { s.timing.data_wait_s = -1; }},
      {"allreduce_s", [](TrainingState& s) { s.timing.allreduce_s = -1; }},
      {"compute_s", [](TrainingState& s) { s.timing.compute_s = 1e13; }},
      {"update_s", [](TrainingState& s) { s.timing.update_s = -1; }},
      {"imbalance_s", [](TrainingState& s) { s.timing.imbalance_s = -1; }},
      {"bytes_read", [](TrainingState& s) { s.timing.bytes_read = -1; }},
      {"epoch_seconds", [](TrainingState& s) { s.timing.epoch_seconds = -1; }},
      {"elapsed_s", [](TrainingState& s) { s.elapsed_s = -1; }},
      {"elapsed_s", [](TrainingState& s) { s.elapsed_s = INFINITY; }},
      {"loss_sum", [](TrainingState& s) { s.loss_sum = NAN; }},
      {"schedule.bad_epochs", [](TrainingState& s) { s.schedule.bad_epochs = -1; }},
      {"schedule.reductions", [](TrainingState& s) { s.schedule.reductions = -5; }},
      {"schedule", [](TrainingState& s) { s.schedule.reductions = 3; }},
      {"optimizer_updates", [](TrainingState& s) { s.optimizer_updates = 421; }},
      {"optimizer_updates", [](TrainingState& s) { s.optimizer_updates = -1; }},
      {"loss_scale.scale", [](TrainingState& s) { s.loss_scale.scale = 0.5; }},
      {"loss_scale.scale", [](TrainingState& s) { s.loss_scale.scale = 0x1p33; }},
      {"loss_scale.scale", [](TrainingState& s) { s.loss_scale.scale = 3; }},
      {"loss_scale.good_steps", [](TrainingState& s) { s.loss_scale.good_steps = 2000; }},
      {"best.epoch", [](TrainingState& s) { s.best_epoch = 4; }},
      {"best.epoch", [](TrainingState& s) { s.best_epoch = 0; }},
      {"best.loss",
       [](TrainingState& s) {
         s.best_loss = 1;
         s.best_epoch = 0;
         s.best_value = NAN;
       }},
      {"loss_watch.steps", [](TrainingState& s) { s.loss_watch.steps = 100; }},
      {"loss_watch.steps", [](TrainingState& s) { s.loss_watch.steps = -1; }},
      {"loss_watch.sum", [](TrainingState& s) { s.loss_watch.sum = 1; }},
      {"loss_watch.sum", [](TrainingState& s) { s.loss_watch.sum = INFINITY; }},
      {"logical_ranks", [](TrainingState& s) { s.logical_ranks = 0; }},
      {"logical_ranks", [](TrainingState& s) { s.logical_ranks = 65537; }},
      {"split_sha256", [](TrainingState& s) { s.split_sha256 = "ab"; }},
      {"manifest_sha256", [](TrainingState& s) { s.manifest_sha256[0] = 'g'; }},
      {"trained_on", [](TrainingState& s) { s.trained_on = "nothing at all"; }},
      {"classes", [](TrainingState& s) { s.classes = {"x\ndtrain: error 0: all good"}; }},
  };
  for (const auto& [field, change] : cases) {
    TrainingState state = some_state();
    change(state);
    INFO(field << " in " << to_json(state));
    CHECK_THROWS_WITH(training_state_from_json(to_json(state), "f.safetensors"),
                      Catch::StartsWith("f.safetensors: ") && Catch::Contains("'" + field + "'"));
  }
}

TEST_CASE("a state whose fields are of another kind is refused") {
  const std::string good = to_json(some_state());
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"\"step\":420", "\"step\":420.5"},
      {"\"step\":420", "\"step\":true"},
      {"\"step\":420", "\"step\":18446744073709551615"},
      {"\"step\":420", "\"step\":null"},
      {"\"coverage_sum\":18364758544493064720", "\"coverage_sum\":-1"},
      {"\"elapsed_s\":1e-07", "\"elapsed_s\":\"1\""},
      {"\"elapsed_s\":1e-07", "\"elapsed_s\":1e999"},
      {"\"schedule\":{", "\"schedule\":[{"},
      {"[\"a\",", "[1,"},
      {"{\"libtorch\":\"2.11.0\"}", "{\"libtorch\":2}"},
  };
  for (const auto& [from, to] : changes) {
    INFO(to);
    std::string text = good;
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    CHECK_THROWS_AS(training_state_from_json(text, "f"), DataError);
  }
}

TEST_CASE("a list of what was trained on that could not be is refused, not passed by") {
  for (const char* right : {"", "0123456789ab", "0123456789ab0123456789ac"})
    CHECK_NOTHROW(require_training_digits(right, "f"));
  for (const std::string wrong : {"garbage", "0123456789a", "0123456789AB", "0123456789ab0123456789ab",
                                  "0123456789ac0123456789ab", "0123456789ab,"})
    CHECK_THROWS_WITH(require_training_digits(wrong, "f"), Catch::StartsWith("f: 'trained_on'"));
}

TEST_CASE("the metadata of weights of ours are in order, and those of others need not be") {
  const std::map<std::string, std::string> good = {
      {"format", "dtrain-weights-1"},
      {"logical_ranks", "4"},
      {"classes", "[\"a\",\"b\"]"},
      {"epoch", "2"},
      {"split_sha256", std::string(64, '0')},
      {"trained_on", "0123456789ab"},
      {"mask_values", "[[0,0],[255,2]]"},
      {"fitted", R"({"thresholds":[0.25,null],"thresholds_from":"valid:youden"})"}};
  const WeightsOrigin origin = weights_origin(good, "f");
  CHECK(origin.logical_ranks == 4);
  CHECK(origin.classes == std::vector<std::string>{"a", "b"});
  CHECK(origin.trained_on == "0123456789ab");
  CHECK(origin.mask_values == std::map<int64_t, int64_t>{{0, 0}, {255, 2}});
  CHECK(fitted_json(origin.fitted) == good.at("fitted"));
  for (const auto& [key, wrong] :
       std::vector<std::pair<std::string, std::string>>{{"logical_ranks", "4x"},
                                                        {"logical_ranks", "-4"},
                                                        {"logical_ranks", "99999999999999999999"},
                                                        {"classes", "{}"},
                                                        {"classes", "[1]"},
                                                        {"epoch", "0"},
                                                        {"split_sha256", "x"},
                                                        {"mask_values", "x"},
                                                        {"mask_values", "[[1]]"},
                                                        {"mask_values", "[[1,3]]"},
                                                        {"mask_values", "[[-1,1]]"},
                                                        {"fitted", "{"},
                                                        {"fitted", "{\"temperature\":2}"},
                                                        {"fitted", "{\"thresholds\":[0.1],\"thresholds_from\":\"x\"}"},
                                                        {"trained_on", "x"}}) {
    INFO(key << " " << wrong);
    auto changed = good;
    changed[key] = wrong;
    CHECK_THROWS_WITH(weights_origin(changed, "f"), Catch::StartsWith("f: '" + key + "'"));
    changed.erase("format");
    if (key != "trained_on") CHECK_NOTHROW(weights_origin(changed, "f"));
  }
  CHECK(weights_origin({}, "f").trained_on.empty());
  CHECK(other_size({}, "f", 4, 6).empty());
  CHECK(other_size({{"image_size", "4,6"}}, "f", 4, 6).empty());
  CHECK(other_size({{"image_size", "6,4"}}, "f", 4, 6).starts_with("f was trained on pictures of 6,4 and is used on"));
}

TEST_CASE("a checkpoint under a name that tells another place is refused") {
  const test::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder / "checkpoints");
  const std::string path = checkpoints.save(some_state(), HostCopy({{"model.w", at::ones({3})}}), 3);
  std::filesystem::copy(path, folder / "kept.safetensors");
  CHECK(CheckpointFolder::read(folder / "kept.safetensors").state.step == 420);
  const std::string other = folder / "checkpoints/epoch-0003-step-00000421.safetensors";
  std::filesystem::copy(path, other);
  CHECK_THROWS_WITH(CheckpointFolder::read(other), Catch::Contains("which does not match its name"));
  const auto newest = checkpoints.newest();
  REQUIRE(newest);
  CHECK(newest->path == path);
  CHECK(newest->skipped.size() == 1);
}

TEST_CASE("tensors of any layout come back with their values") {
  const test::TemporaryFolder folder;
  const at::Tensor kernel = at::randn({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor counter = at::full({}, 7, at::kLong);
  const std::string path = folder / "t.safetensors";
  save_tensors(path, HostCopy({{"k", kernel}, {"n", counter}}), {{"a", "b"}});
  const SafetensorsFile file = SafetensorsFile::read(path, true);
  at::Tensor kernel_back = at::zeros({4, 3, 3, 3});
  at::Tensor counter_back = at::zeros({}, at::kLong);
  fill_tensors(file, path, {{"k", kernel_back}, {"n", counter_back}});
  CHECK(at::equal(kernel_back, kernel));
  CHECK(counter_back.item<int64_t>() == 7);
  at::Tensor wrong_shape = at::zeros({4, 3, 3, 2});
  CHECK_THROWS_WITH(fill_tensors(file, path, {{"k", wrong_shape}}), Catch::Contains("tensor k"));
  CHECK_THROWS_WITH(fill_tensors(file, path, {{"absent", kernel_back}}), Catch::Contains("absent"));
}

TEST_CASE("result_sha256 follows the contract, whatever the order and layout") {
  const at::Tensor a = at::tensor({1.0F, 2.0F});
  const at::Tensor b = at::arange(24, at::kFloat).view({1, 2, 3, 4});
  const std::string expected = [&] {
    Sha256 hash;
    hash.update("a")
        .update(std::string(1, '\0'))
        .update("F32")
        .update(std::string(1, '\0'))
        .update("2")
        .update(std::string(1, '\0'));
    hash.update(std::as_bytes(std::span(a.const_data_ptr<float>(), 2)));
    hash.update("b")
        .update(std::string(1, '\0'))
        .update("F32")
        .update(std::string(1, '\0'))
        .update("1,2,3,4")
        .update(std::string(1, '\0'));
    hash.update(std::as_bytes(std::span(b.const_data_ptr<float>(), 24)));
    return hash.hex_digest();
  }();
  CHECK(result_sha256({{"a", a}, {"b", b}}) == expected);
  CHECK(result_sha256({{"b", b.contiguous(at::MemoryFormat::ChannelsLast)}, {"a", a}}) == expected);
  CHECK(result_sha256({{"a", a}, {"b", b + 1}}) != expected);
  const test::TemporaryFolder folder;
  const std::string path = folder / "c.safetensors";
  save_tensors(path, HostCopy({{"optimizer.b", b}, {"model.b", b}, {"model.a", a}}), {});
  CHECK(result_sha256(SafetensorsFile::read(path), "model.") == expected);
}

TEST_CASE("the newest valid checkpoint is found, damaged ones are named, old ones go") {
  const test::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder / "checkpoints");
  CHECK_FALSE(checkpoints.newest());
  TrainingState state = some_state();
  const at::Tensor weights = at::randn({1000});
  for (int64_t step : {5, 10, 15, 20}) {
    state.step = step;
    checkpoints.save(state, HostCopy({{"model.w", weights}}), 3);
  }
  const auto newest = checkpoints.newest();
  REQUIRE(newest);
  CHECK(newest->state.step == 20);
  CHECK(newest->skipped.empty());
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoints/epoch-0003-step-00000005.safetensors"));
  CHECK(std::filesystem::exists(folder / "checkpoints/epoch-0003-step-00000010.safetensors"));

  flip_bit(folder / "checkpoints/epoch-0003-step-00000020.safetensors", 3000);
  std::filesystem::resize_file(folder / "checkpoints/epoch-0003-step-00000015.safetensors", 1000);
  std::ofstream(folder / "checkpoints/epoch-0003-step-00000025.safetensors.tmp") << "half";
  const auto older = checkpoints.newest();
  REQUIRE(older);
  CHECK(older->state.step == 10);
  CHECK(older->skipped.size() == 2);
  CHECK(std::filesystem::exists(folder /
                                "checkpoints/epoch-0003-step-00000025.safetensors.tmp"));  // reading changes nothing
  CHECK(checkpoints.begin_after(10, 3).size() == 2);
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoints/epoch-0003-step-00000025.safetensors.tmp"));
  CHECK(std::filesystem::exists(folder / "checkpoints/epoch-0003-step-00000020.safetensors.aside"));
  state.step = 11;
  checkpoints.save(state, HostCopy({{"model.w", weights}}), 1);
  CHECK(checkpoints.newest()->state.step == 11);

  flip_bit(folder / "checkpoints/epoch-0003-step-00000011.safetensors", 20);
  CHECK_THROWS_AS(checkpoints.newest(), DataError);
}

TEST_CASE("weights are no checkpoint") {
  const test::TemporaryFolder folder;
  save_tensors(folder / "best.safetensors", HostCopy({{"w", at::zeros({3})}}), {});
  CHECK_THROWS_WITH(CheckpointFolder::read(folder / "best.safetensors"), Catch::Contains("no training state"));
  CHECK_THROWS_AS(CheckpointFolder::read(folder / "absent.safetensors"), MissingError);
}

TEST_CASE("a save beside training holds the tensors as they were when it began") {
  const test::TemporaryFolder folder;
  TrainingState state = some_state();
  at::Tensor weights = at::full({100000}, 1.0F);
  CheckpointWriter writer(CheckpointFolder(folder / "checkpoints"), 2);
  CHECK(writer.finish().empty());
  for (const int64_t step : {5, 10, 15, 20}) {
    state.step = step;
    weights.fill_(static_cast<double>(step));
    writer.save(state, {{"model.w", weights}});
    weights.fill_(-1.0);
  }
  writer.save_tensors(folder / "best.safetensors", state, {{"w", at::full({3}, 7.0F)}}, {{"format", "weights"}});
  std::vector<int64_t> steps;
  for (const CheckpointWriter::Outcome& outcome : writer.finish()) {
    CHECK(outcome.failed == 0);
    CHECK(std::filesystem::exists(folder / "best.safetensors"));
    steps.push_back(outcome.checkpoint ? outcome.step : -outcome.step);
  }
  CHECK(steps == std::vector<int64_t>{5, 10, 15, 20, -20});
  CHECK(writer.outcomes().empty());
  const auto newest = CheckpointFolder(folder / "checkpoints").newest();
  REQUIRE(newest);
  CHECK(newest->state.step == 20);
  at::Tensor back = at::zeros({100000});
  fill_tensors(newest->file, newest->path, {{"model.w", back}});
  CHECK(back.eq(20.0).all().item<bool>());
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoints/epoch-0003-step-00000010.safetensors"));
}

TEST_CASE("a save that fails is told, and the next one may succeed") {
  const test::TemporaryFolder folder;
  TrainingState state = some_state();
  std::ofstream(folder / "checkpoints") << "no folder";
  CheckpointWriter writer(CheckpointFolder(folder / "checkpoints"), 2);
  writer.save(state, {{"model.w", at::ones({3})}});
  const auto failed = writer.finish();
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].failed != 0);
  CHECK_THAT(failed[0].why, Catch::Contains("checkpoints"));
  CHECK(failed[0].step == state.step);
  std::filesystem::remove(folder / "checkpoints");
  writer.save(state, {{"model.w", at::ones({3})}});
  const auto saved = writer.finish();
  REQUIRE(saved.size() == 1);
  CHECK(saved[0].failed == 0);
  CHECK(CheckpointFolder::read(saved[0].path).state.step == state.step);
}

TEST_CASE("of what failed only the best weights are tried again, and only once") {
  const test::TemporaryFolder folder;
  const TrainingState state = some_state();
  const std::vector<FileTensor> tensors = {{"w", at::ones({3})}};
  std::ofstream(folder / "checkpoints") << "no folder";
  CheckpointWriter writer(CheckpointFolder(folder / "checkpoints"), 2);
  writer.save(state, tensors);
  writer.save_tensors(folder / "best.safetensors", state, tensors, {});
  CHECK(writer.finish().size() == 2);
  writer.try_best_again();  // nothing to do: these weights were saved, and the next checkpoint replaces a failed one
  CHECK(writer.finish().empty());
  writer.save_tensors(folder / "absent/best.safetensors", state, tensors, {});
  CHECK(writer.finish().at(0).failed != 0);
  std::filesystem::create_directory(folder / "absent");
  writer.try_best_again();
  const auto again = writer.finish();
  REQUIRE(again.size() == 1);
  CHECK(again[0].failed == 0);
  CHECK(std::filesystem::exists(folder / "absent/best.safetensors"));
  writer.try_best_again();
  CHECK(writer.finish().empty());
}

TEST_CASE("best weights that failed outlast a checkpoint, and newer ones take their place") {
  const test::TemporaryFolder folder;
  const TrainingState state = some_state();
  const std::vector<FileTensor> tensors = {{"w", at::ones({3})}};
  const std::string best = folder / "absent/best.safetensors";
  CheckpointWriter writer(CheckpointFolder(folder / "checkpoints"), 2);
  writer.save_tensors(best, state, tensors, {});
  CHECK(writer.finish().at(0).failed != 0);
  writer.save(state, tensors);
  CHECK(writer.finish().at(0).failed == 0);
  writer.try_best_again();
  CHECK(writer.finish().at(0).path == best);  // the folder is still absent
  std::filesystem::create_directory(folder / "absent");
  writer.save_tensors(best, state, {{"w", at::zeros({3})}}, {});
  CHECK(writer.finish().at(0).failed == 0);
  writer.try_best_again();
  CHECK(writer.finish().empty());
}

TEST_CASE("what begins while the writer goes is written before it is gone") {
  const test::TemporaryFolder folder;
  {
    CheckpointWriter writer(CheckpointFolder(folder / "checkpoints"), 2);
    writer.save(some_state(), {{"model.w", at::ones({1000})}});
  }
  CHECK(CheckpointFolder(folder / "checkpoints").newest());
}
