#pragma once
#include <cstdint>

#include "dtrain/checkpoint/state.hpp"

namespace dtrain {

/// More than any run reaches, and far from where a sum of two would overflow.
inline constexpr int64_t kMostCount = int64_t{1} << 53;
inline constexpr int64_t kMostEpochs = 1'000'000'000;
inline constexpr int64_t kMostLogicalRanks = 65536;

/// Passes every field of a state once, with its allowed values, to a visitor that writes, reads or checks them. A name
/// with a dot is in a group of the JSON object. The visitor's functions: count(name, number, least, most); sum(name,
/// number) of 64 bits modulo 2^64; real(name, value), finite; real_or_none(name, value), NaN if there is none;
/// seconds(name, value); hash(name, text), a SHA-256 or nothing; digits(name, text) of training_digits(); list(name,
/// texts); table(name, texts by name); has(name), false for a field that the state being read does not have.
///
/// These are the fields of the first release, without which a state is refused. A later one is visited only if present,
/// so that older runs can be resumed:
///   if (v.has("name")) v.count("name", s.name, 0, kMostCount);
/// A state without it keeps TrainingState's initial value, which must be the one from before the field existed.
template <class Visitor, class State>
void visit_fields(Visitor& v, State& s) {
  v.count("epoch", s.epoch, 0, kMostEpochs);
  v.count("step", s.step, 0, kMostCount);
  v.count("cursor", s.cursor, 0, kMostCount);
  v.real("loss_sum", s.loss_sum);
  v.count("without_loss", s.without_loss, 0, kMostCount);
  v.count("correct", s.correct, 0, kMostCount);
  v.count("skipped_steps", s.skipped_steps, 0, kMostCount);
  v.count("replaced_samples", s.replaced_samples, 0, kMostCount);
  v.sum("coverage_sum", s.coverage_sum);
  for (const TimingField& field : kTimingFields) v.seconds(field.name, s.timing.*field.seconds);
  v.count("bytes_read", s.timing.bytes_read, 0, int64_t{1} << 60);
  v.seconds("elapsed_s", s.elapsed_s);
  v.real_or_none("schedule.best", s.schedule.best);
  v.count("schedule.bad_epochs", s.schedule.bad_epochs, 0, kMostEpochs);
  v.count("schedule.reductions", s.schedule.reductions, 0, kMostEpochs);
  v.count("optimizer_updates", s.optimizer_updates, 0, kMostCount);
  v.real("loss_scale.scale", s.loss_scale.scale);
  v.count("loss_scale.good_steps", s.loss_scale.good_steps, 0, LossScale::kGrowAfter - 1);
  v.real_or_none("best.value", s.best_value);
  v.count("best.epoch", s.best_epoch, 0, kMostEpochs);
  v.count("logical_ranks", s.logical_ranks, 1, kMostLogicalRanks);
  v.hash("split_sha256", s.split_sha256);
  v.hash("manifest_sha256", s.manifest_sha256);
  v.digits("trained_on", s.trained_on);
  v.list("classes", s.classes);
  v.table("config", s.config);
  v.table("versions", s.versions);
  // Later than the first release.
  if (v.has("best.loss")) v.real_or_none("best.loss", s.best_loss);
  if (v.has("best.frequencies_loss")) v.real_or_none("best.frequencies_loss", s.best_frequencies_loss);
  if (v.has("early_stop.best")) v.real_or_none("early_stop.best", s.early_stop.best);
  if (v.has("early_stop.bad_epochs")) v.count("early_stop.bad_epochs", s.early_stop.bad_epochs, 0, kMostEpochs);
  if (v.has("thawed_at")) v.count("thawed_at", s.thawed_at, -1, kMostCount);
  if (v.has("loss_watch.first")) v.real_or_none("loss_watch.first", s.loss_watch.first);
  if (v.has("loss_watch.sum")) v.real("loss_watch.sum", s.loss_watch.sum);
  if (v.has("loss_watch.steps")) v.count("loss_watch.steps", s.loss_watch.steps, 0, LossWatch::kMostSteps - 1);
}

}  // namespace dtrain
