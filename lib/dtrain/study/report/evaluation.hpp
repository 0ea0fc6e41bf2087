#pragma once
#include "dtrain/study/report/model.hpp"

namespace dtrain {

/// per_class from the curves: the values that the epoch of the best weights had, of the first metric that has any by
/// class. Without intervals.
void take_class_curves(ReportedRun& run);

/// What dtrain eval wrote into the run's folder, if it did: values and per_class with intervals, and if `counted` the
/// counts of classes. What cannot be read becomes a note.
void take_evaluation(ReportedRun& run, bool counted);

}  // namespace dtrain
