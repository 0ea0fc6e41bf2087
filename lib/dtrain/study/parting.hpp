#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/study/run_record.hpp"

namespace dtrain {

/// Where the training losses of two runs part.
struct Parting {
  int64_t both = 0;              ///< steps that both have
  int64_t same = 0;              ///< of them, those before the first that differs in a bit
  std::optional<int64_t> first;  ///< the first step that differs; nothing: none does
  double first_apart = 0;        ///< there and at the others: |B − A| ÷ the larger of both; NaN if one is no number
  int64_t largest = 0;           ///< the step with the largest distance, of those where both are numbers
  double largest_apart = 0;
  int64_t last = 0;   ///< the last step that both have
  double last_a = 0;  ///< losses there
  double last_b = 0;
  double last_apart = 0;
};
Parting parting_of(const std::vector<StepRecord>& a, const std::vector<StepRecord>& b);

/// The epoch in which a column was best; of equal ones the first.
struct BestEpoch {
  int64_t epoch = 0;
  double value = 0;
  std::optional<double> elapsed_s;  ///< of training until then
};
std::optional<BestEpoch> best_epoch(const NumberTable& epochs, const std::string& column, bool larger_is_better);

/// Where a run's time went; nothing where its files do not say.
struct RunTimes {
  std::optional<double> elapsed_s;        ///< of all epochs and their evaluations and saves
  std::optional<double> epoch_s;          ///< median of training alone
  std::optional<double> step_ms;          ///< median over steps of rank 0, else mean over epochs
  std::optional<double> images_per_s;     ///< samples of all epochs by their seconds of training
  std::optional<double> valid_s;          ///< median of an evaluation
  std::optional<double> data_wait_share;  ///< of the seconds of training, 0 … 1
};
RunTimes times_of(const RunRecord& run);

}  // namespace dtrain
