#include "dtrain/advice/schedule_advice.hpp"

#include <algorithm>

#include "dtrain/base/short_number.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

static void few_updates(const ScheduleFacts& facts, std::vector<Finding>& found) {
  constexpr int64_t kFew = 50;
  const int64_t updates = facts.steps_per_epoch * facts.epochs;
  const bool one_step = facts.steps_per_epoch == 1;
  if (!one_step && updates >= kFew) return;
  const std::string all = count_of(updates, "update") + " in the whole run: ";
  const std::string why = one_step ? "one step takes the whole training part (" + count_of(facts.samples, "sample") +
                                         ", global batch " + with_commas(facts.global_batch) + "), which makes " + all
                                   : count_of(facts.steps_per_epoch, "step") + " per epoch make " + all;
  const std::string ranks =
      facts.logical_ranks > 1 ? " or distributed.logical_ranks (" + std::to_string(facts.logical_ranks) + ")" : "";
  found.push_back({one_step ? weight::kPoor + 5 : weight::kPoor, "few_updates",
                   why + "lower the batch" + ranks + ", or raise epochs"});
}

static void no_warmup(const ScheduleFacts& facts, std::vector<Finding>& found) {
  constexpr double kMild = 2;
  constexpr double kSteep = 8;
  constexpr int64_t kUsualEpochs = 5;  // of warm-up, as in Goyal et al., 2017
  const double factor = facts.base_rate > 0 ? facts.scaled_rate / facts.base_rate : 1;
  if (factor <= kMild || facts.warmup_epochs > 0) return;
  const int64_t epochs = std::clamp<int64_t>(facts.epochs / 10, 1, kUsualEpochs);
  found.push_back({factor >= kSteep ? weight::kPoor + 10 : weight::kPoor - 5, "warmup",
                   "the learning rate is " + four_digits(facts.scaled_rate) + " from the first step on, " +
                       four_digits(factor) + " times the base rate " + four_digits(facts.base_rate) +
                       ", without warmup: schedule.warmup='" + count_of(epochs, "epoch") +
                       "' lets it grow there, schedule.scale_with_ranks=none keeps the base "
                       "rate"});
}

std::vector<Finding> schedule_advice(const ScheduleFacts& facts) {
  std::vector<Finding> found;
  few_updates(facts, found);
  no_warmup(facts, found);
  return found;
}

}  // namespace dtrain
