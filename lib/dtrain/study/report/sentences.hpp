#pragma once
#include <string>
#include <vector>

#include "dtrain/study/report/model.hpp"

// What a careful reader would say about the figures. docs/studies.md describes each sentence with its threshold.

namespace dtrain {

/// A share of a steady epoch's time from which on it is worth a sentence how to save it.
inline constexpr double kNotableShare = 0.1;
/// How many times a steady epoch's time the first one has to take to be worth one.
inline constexpr double kNotableStart = 1.5;
/// Serial fractions grow if the last is this many times the first, and by more than kNotableFraction.
inline constexpr double kFractionGrows = 1.5;
inline constexpr double kNotableFraction = 0.005;

/// About one run: its best value, where its time goes, its first epoch, ranks that are slow.
std::vector<std::string> sentences_on(const ReportedRun& run);

/// About a series: speed-ups that are missing, above the ideal, up to which count more ranks pay and what takes the
/// time beyond it, the serial fraction, whether the metric falls with the ranks by more than its spread (Welch's
/// interval of 95 %), slow ranks. pays_up_to and has_one_rank are set.
std::vector<std::string> sentences_on(const ReportedSeries& series, const std::vector<ReportedRun>& runs);

/// Which series is best, where several share a monitor.
std::vector<std::string> sentences_on(const ReportedStudy& study);

/// "0.31 s", "12.3 s", from 100 s on "00:12:40".
std::string seconds_text(double seconds);

/// "0.9650 ± 0.0020"; without ± for one run, "" for none.
std::string spread_text(const Spread& spread, int digits);

}  // namespace dtrain
