#pragma once
#include <optional>

#include "dtrain/metrics/predictions.hpp"

namespace dtrain {

/// The temperature T for which logits divided by T have the lowest mean log loss on these predictions (temperature
/// scaling, Guo et al., ICML 2017), one number for all outputs, from kLeastTemperature to kMostTemperature:
///
///   multiclass   softmax(logits / T): the answer of each sample stays, and so do accuracy and confusion matrix
///   multilabel   sigmoid(logits / T) of each output: the order of its samples stays, and so do its curves; log loss
///                over all known labels of all outputs together, so that rare labels need no temperature of their own.
///                0.5 stays 0.5: how often a label is called positive by mistake is for the threshold, not for this
///
/// Labels count as 0 and 1, without loss.pos_weight and label_smoothing. Nothing where no such T is best: without known
/// labels, where every answer is right (T would go to 0), where logits say nothing or the contrary (T would be
/// infinite). To 12 digits; a function of the predictions alone.
std::optional<double> fitted_temperature(const Predictions& predictions);
/// What it makes least: the mean log loss of the known labels (multilabel: of all outputs) or samples (multiclass),
/// with the logits divided by `temperature`. 0 if there are none.
double mean_log_loss(const Predictions& predictions, double temperature);
inline constexpr double kLeastTemperature = 0.01;
inline constexpr double kMostTemperature = 100;

}  // namespace dtrain
