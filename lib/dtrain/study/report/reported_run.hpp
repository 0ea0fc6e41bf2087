#pragma once
#include <string>

#include "dtrain/study/report/model.hpp"
#include "dtrain/study/report/run_source.hpp"

namespace dtrain {

/// What a record shows, without what dtrain eval has added to the folder. `steady`: the epochs that rates are of.
ReportedRun reported_run(const RunRecord& run, const RunSource& source, const SteadyEpochs& steady = {});

/// A folder's run, with what dtrain eval wrote into it: metrics_<split>.json of test, else valid, else train, and if
/// `counted` the classes of predictions_<split>.csv, which may be large. Damaged files become notes. Throws as
/// read_text() for a file of the run that cannot be read at all.
ReportedRun read_reported_run(const RunSource& source, bool counted);

}  // namespace dtrain
