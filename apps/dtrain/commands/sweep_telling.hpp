#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands/sweep_points.hpp"
#include "dtrain/runlog/progress.hpp"
#include "dtrain/study/scaling.hpp"

namespace dtrain {

// What dtrain sweep says to people.

/// The points as a table, one line each: name, ranks, state, best value, images/s, time.
std::vector<std::string> table_of_points(const std::vector<JudgedPoint>& points);

/// The rows of scaling.csv as a table; empty if it would say no more than the points do.
std::vector<std::string> table_of_scaling(const std::vector<ScalingRow>& rows, const std::vector<JudgedPoint>& points);

/// Sentences about figures that are missing or out of the ordinary.
std::vector<std::string> notes_on(const std::vector<ScalingRow>& rows, const std::vector<JudgedPoint>& points);

/// The figures that a study file expects, with their source; empty without.
std::vector<std::string> lines_of_expected(const StudyAsked& asked);

/// "3 done, 1 failed, 8 to run"
std::string count_of_states(const std::vector<JudgedPoint>& points);

/// "ready in about 00:12:40", with so many jobs side by side; "" if nothing is known or left.
std::string ready_in(const std::vector<JudgedPoint>& points, int64_t jobs);

/// The fields of the progress line while these run, at least one.
ProgressFields sweep_fields(const std::vector<JudgedPoint>& points, const std::vector<const JudgedPoint*>& running,
                            int64_t jobs);

/// "valid_accuracy 0.9300 in epoch 4  1,204 images/s  00:00:12" of a finished point.
std::string what_came_out(const SweepRow& row);

/// The finished point with the best value, if they share a monitor.
const JudgedPoint* best_of(const std::vector<JudgedPoint>& points);

}  // namespace dtrain
