// States that older and newer programs saved.
#include <cmath>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/checkpoint/state.hpp"
#include "dtrain/checkpoint/state_json.hpp"
#include "support/catch.hpp"

using namespace dtrain;

static const char* const kFirstRelease =
    R"({"allreduce_s":0.0,"best":{"epoch":0,"value":null},"bytes_read":0,"classes":["a"],"compute_s":0.0,)"
    R"("config":{"seed":"1"},"correct":0,"coverage_sum":18364758544493064720,"cursor":0,"data_wait_s":0.0,)"
    R"("elapsed_s":0.0,"epoch":0,"epoch_seconds":0.0,"imbalance_s":0.0,"logical_ranks":1,)"
    R"("loss_scale":{"good_steps":0,"scale":65536.0},"loss_sum":0.0,"manifest_sha256":"","optimizer_updates":0,)"
    R"("replaced_samples":0,"schedule":{"bad_epochs":0,"best":null,"reductions":0},"skipped_steps":0,)"
    R"("split_sha256":"","step":0,"trained_on":"","update_s":0.0,"versions":{},"without_loss":0})";

static TrainingState plain_state() {
  TrainingState state;
  state.logical_ranks = 1;
  state.coverage_sum = 0xfedcba9876543210ULL;
  state.classes = {"a"};
  state.config = {{"seed", "1"}};
  return state;
}

TEST_CASE("the state is written as version 0.1.0 writes it, and what came later beside that") {
  using nlohmann::json;
  json now = json::parse(to_json(plain_state()));
  CHECK(now.at("loss_watch") == json::parse(R"({"first":null,"steps":0,"sum":0.0})"));
  now.erase("loss_watch");
  CHECK(now.at("early_stop") == json::parse(R"({"bad_epochs":0,"best":null})"));
  now.erase("early_stop");
  CHECK(now.at("thawed_at") == -1);
  now.erase("thawed_at");
  for (const char* later : {"loss", "frequencies_loss"}) {
    CHECK(now.at("best").at(later).is_null());
    now.at("best").erase(later);
  }
  CHECK(now.dump() == kFirstRelease);
}

TEST_CASE("what came after the first release keeps every bit, and a state without it stands before it") {
  TrainingState state = plain_state();
  state.coverage_sum = 0;
  state.epoch = state.best_epoch = 1;
  state.step = 5;
  state.best_value = 0.5;
  state.best_loss = 0.1 + 0.2;
  state.best_frequencies_loss = 1.0 / 3;
  state.loss_watch = {2.0 / 3, 1e33, 4};
  state.early_stop = {1.0 / 3, 2};
  state.optimizer_updates = 5;
  state.thawed_at = 3;
  const TrainingState back = training_state_from_json(to_json(state), "f");
  CHECK(back.best_loss == state.best_loss);
  CHECK(back.best_frequencies_loss == state.best_frequencies_loss);
  CHECK(back.loss_watch.first == state.loss_watch.first);
  CHECK(back.loss_watch.sum == state.loss_watch.sum);
  CHECK(back.loss_watch.steps == 4);
  CHECK(back.early_stop.best == 1.0 / 3);
  CHECK(back.early_stop.bad_epochs == 2);
  CHECK(back.thawed_at == 3);
  auto first = nlohmann::json::parse(kFirstRelease);
  first["coverage_sum"] = 0U;
  const TrainingState older = training_state_from_json(first.dump(), "f");
  CHECK(std::isnan(older.best_loss));
  CHECK(std::isnan(older.best_frequencies_loss));
  CHECK(std::isnan(older.loss_watch.first));
  CHECK(older.loss_watch.steps == 0);
  CHECK(older.early_stop.bad_epochs == 0);
}

TEST_CASE("each share of an epoch's time is kept under its own name") {
  TrainingState state = plain_state();
  double seconds = 0.5;
  for (const TimingField& field : kTimingFields) state.timing.*field.seconds = seconds++;
  state.timing.bytes_read = 7;
  state.coverage_sum = 0;
  const auto written = nlohmann::json::parse(to_json(state));
  const TrainingState back = training_state_from_json(to_json(state), "f");
  for (const TimingField& field : kTimingFields) {
    INFO(field.name);
    CHECK(written.at(field.name) == state.timing.*field.seconds);
    CHECK(back.timing.*field.seconds == state.timing.*field.seconds);
  }
  CHECK(back.timing.bytes_read == 7);
}

// Without any one field of the first release a state is damaged, whereas later fields may be absent.
TEST_CASE("a state of the first release is read, and refused without any of its fields") {
  using nlohmann::json;
  json whole = json::parse(kFirstRelease);
  whole["coverage_sum"] = 0U;  // 'cursor' is 0, and a sum over no samples is 0
  CHECK_NOTHROW(training_state_from_json(whole.dump(), "f"));
  int fields = 0;
  const auto refused_without = [&](const json& without, const std::string& name) {
    INFO(name);
    ++fields;
    CHECK_THROWS_MATCHES(training_state_from_json(without.dump(), "f"), DataError,
                         Catch::Message("f: its state cannot be read ([json.exception.out_of_range.403] key '" + name +
                                        "' not found); the file was not written by this version of dtrain"));
  };
  for (const auto& [name, value] : whole.items()) {
    json without = whole;
    if (name == "best" || name == "loss_scale" || name == "schedule") {
      for (const auto& [part, held] : value.items()) {
        without = whole;
        without[name].erase(part);
        refused_without(without, part);
      }
    } else {
      without.erase(name);
      refused_without(without, name);
    }
  }
  CHECK(fields == 32);
}

TEST_CASE("a state with a field that this program does not have was saved by a newer one, and is not called damaged") {
  for (const char* field : {"/colour", "/schedule/colour"}) {
    auto newer = nlohmann::json::parse(kFirstRelease);
    newer["coverage_sum"] = 0U;
    newer[nlohmann::json::json_pointer(field)] = 1;
    INFO(field);
    CHECK_THROWS_MATCHES(training_state_from_json(newer.dump(), "f"), ConfigError,
                         Catch::Message(std::string("f was saved by a newer dtrain than this one: its state has '") +
                                        (field[1] == 'c' ? "colour" : "schedule.colour") +
                                        "', which this one does not know; resume with the newer one"));
  }
}

// How state_fields.hpp takes a field that comes after the first release, on its own and in a group.
TEST_CASE("a field that came later keeps the value from before where a state does not have it") {
  struct State {
    int64_t old = 0;
    int64_t later = 7;
    double in_group = 0.5;
  };
  const auto visit = [](auto& v, auto& s) {
    v.count("old", s.old, 0, 100);
    if (v.has("later")) v.count("later", s.later, 0, 100);
    if (v.has("group.later")) v.real("group.later", s.in_group);
  };
  const auto read = [&](const char* text) {
    const auto object = nlohmann::json::parse(text);
    const std::string file = "f";
    StateReader reader(object, file);
    State state;
    visit(reader, state);
    reader.require_no_others();
    return state;
  };
  const State older = read(R"({"old": 3})");
  CHECK(older.old == 3);
  CHECK(older.later == 7);
  CHECK(older.in_group == 0.5);
  const State newer = read(R"({"old": 3, "later": 8, "group": {"later": 0.25}})");
  CHECK(newer.later == 8);
  CHECK(newer.in_group == 0.25);
  CHECK_THROWS_AS(read(R"({"old": 3, "later": 101})"), DataError);
  CHECK_THROWS_AS(read(R"({"old": 3, "later": null})"), DataError);
  CHECK_THROWS_AS(read(R"({"old": 3, "group": {"other": 1}})"), ConfigError);
  StateWriter writer;
  State state;
  visit(writer, state);
  CHECK(writer.object.dump() == R"({"group":{"later":0.5},"later":7,"old":0})");
}
