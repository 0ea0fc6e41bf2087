#pragma once
#include <string>
#include <vector>

#include "dtrain/study/report/model.hpp"

namespace dtrain {

/// The runs by series and number of ranks, with what follows from them: figures are of finished runs, curves of all.
/// `notes` come first in the study's.
ReportedStudy reported_study(const std::string& name, const std::vector<ReportedRun>& runs,
                             const std::vector<std::string>& notes);

/// What the runs of --advise say.
RateAdvice advice_of(const AdviceAsked& asked, const std::vector<ReportedRun>& runs);

/// The rows of scaling.csv.
std::vector<ScalingRow> rows_of(const ReportedStudy& study);

}  // namespace dtrain
