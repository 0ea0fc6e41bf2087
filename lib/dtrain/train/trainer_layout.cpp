#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include "dtrain/dist/collectives.hpp"
#include "dtrain/train/trainer.hpp"

// What changes the flat layout of parameters and gradients between steps.

namespace dtrain {

// Gradients become ready in an order that the network's graph decides. After the first step that shows it, all ranks
// lay parameters, gradients and optimizer state out in rank 0's order.
void Trainer::adopt_ready_order() {
  const auto count = static_cast<int64_t>(parts_.replica.trained_parameters().size());
  at::Tensor order = at::full({count}, -1, at::kLong);
  const std::vector<size_t> ready = reducer_.ready_order();
  for (size_t k = 0; k < ready.size(); ++k) order[static_cast<int64_t>(k)] = static_cast<int64_t>(ready[k]);
  broadcast(parts_.comm, order);
  if (order[0].item<int64_t>() < 0) return;
  order_known_ = true;
  const auto* places = order.const_data_ptr<int64_t>();
  parts_.replica.reorder({places, places + count});
  reducer_.reorder(parts_.replica.trained_parameters());
}

bool Trainer::thaws_now(const TrainingState& state) const {
  const Duration& until = options_.freeze_until;
  if (until.amount == 0 || !parts_.replica.has_frozen()) return false;
  return static_cast<double>(until.unit == Duration::Unit::epochs ? state.epoch : state.step) >= until.amount;
}

void Trainer::thaw(int64_t updates) {
  parts_.replica.thaw(updates);
  graphs_.clear();  // recorded without their gradients
  reducer_.replace(parts_.replica.trained_parameters(), parts_.replica.moving_buffers().numel());
  order_known_ = false;
}

}  // namespace dtrain
