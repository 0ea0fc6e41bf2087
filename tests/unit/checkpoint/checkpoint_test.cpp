#include <ATen/ATen.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/checkpoint/checkpoint_writer.hpp"
#include "dtrain/io/file.hpp"
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
  state.epoch_seconds = 1.5;
  state.elapsed_s = 1e-7;
  state.schedule = {0.123456789012345678, 1, 2};
  state.optimizer_updates = 418;
  state.loss_scale = {16384, 77};
  state.best_value = 0.75;
  state.best_epoch = 2;
  state.logical_ranks = 8;
  state.split_sha256 = "ab";
  state.manifest_sha256 = "cd";
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
  CHECK(back.loss_scale.good_steps == 77);
  CHECK(back.classes == state.classes);
  TrainingState fresh;
  fresh.logical_ranks = 1;
  CHECK(std::isnan(training_state_from_json(to_json(fresh), "x").best_value));
}

TEST_CASE("a state that is not one is refused with the file's name") {
  CHECK_THROWS_WITH(training_state_from_json("{}", "file.safetensors"), Catch::Contains("file.safetensors"));
  CHECK_THROWS_AS(training_state_from_json("{", "f"), DataError);
  TrainingState state = some_state();
  state.classes = {"x\ndtrain: error 0: all good"};
  CHECK_THROWS_WITH(training_state_from_json(to_json(state), "f"), Catch::Contains("has a class"));
  state = some_state();
  for (const double scale : {0.5, 0x1p33}) {
    state.loss_scale.scale = scale;
    CHECK_THROWS_WITH(training_state_from_json(to_json(state), "f"), Catch::Contains("loss scale"));
  }
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
                                "checkpoints/epoch-0003-step-00000025.safetensors.tmp"));  // looking changes nothing
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

TEST_CASE("what begins while the writer goes is written before it is gone") {
  const test::TemporaryFolder folder;
  {
    CheckpointWriter writer(CheckpointFolder(folder / "checkpoints"), 2);
    writer.save(some_state(), {{"model.w", at::ones({1000})}});
  }
  CHECK(CheckpointFolder(folder / "checkpoints").newest());
}
