#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace dtrain {

/// Files that TensorBoard reads: TFRecords of Event messages, as tensorflow/core/util/event.proto describes them. Its
/// data loader takes every file of a folder whose name holds "tfevents". All functions here return whole records.

/// What every such file begins with: the version of the format. `wall_time`: seconds since 1970.
std::string event_version(double wall_time);

/// The values of one step, each under its tag; "train/loss" goes into the panel "train". TensorBoard's scalars are
/// float32: more digits are lost.
std::string event_of_scalars(double wall_time, int64_t step, std::span<const std::pair<std::string, double>> scalars);

/// A PNG file at a step.
std::string event_of_picture(double wall_time, int64_t step, std::string_view tag, std::span<const std::byte> png);

/// What a run that resumes goes on with: the records of a file up to the first that is torn or damaged, without those
/// of steps after `last_step` and those that begin with the scalar "epoch/epoch" above `last_epoch`.
std::string events_until(std::string_view file, int64_t last_step, int64_t last_epoch);

}  // namespace dtrain
