#include "flip.hpp"

#include <ATen/core/Tensor.h>

namespace dtrain {

std::vector<FlipTarget> flip_targets(Replica& replica) {
  std::vector<FlipTarget> targets;
  const auto add_parts = [&](FlipKind kind, const at::Tensor& flat, const std::string& prefix,
                             const std::string& suffix) {
    for (size_t i = 0; i < replica.parameters().size(); ++i) {
      const Range range = replica.layout().range(replica.place_of(i));
      targets.push_back({kind, prefix + replica.parameter_names()[i] + suffix, flat, range.begin, range.size()});
    }
  };
  add_parts(FlipKind::parameter, replica.flat_parameters(), "model.", "");
  for (const Optimizer::State& state : replica.optimizer().state())
    add_parts(FlipKind::optimizer, state.values, "optimizer.", "." + state.name);
  targets.push_back({FlipKind::optimizer, "optimizer.updates", {}});
  std::vector<at::Tensor> buffers;
  std::vector<std::string> names;
  for (const NamedTensor& buffer : replica.network().named_buffers()) {
    const std::string name = "model." + buffer.name;
    if (!buffer.tensor.is_floating_point()) {
      targets.push_back({FlipKind::buffer, name, buffer.tensor});
      continue;
    }
    buffers.push_back(buffer.tensor);
    names.push_back(name);
  }
  const FlatLayout layout(buffers);
  for (size_t i = 0; i < names.size(); ++i)
    targets.push_back(
        {FlipKind::buffer, names[i], replica.flat_buffers(), layout.range(i).begin, layout.range(i).size()});
  return targets;
}

Flip draw_flip(const std::vector<FlipTarget>& targets, uint64_t seed, int64_t number, int ranks) {
  KeyedRandom random(seed, Purpose::sample_set, static_cast<uint64_t>(number), 80);
  const auto kind = static_cast<FlipKind>(random.below(3));
  std::vector<size_t> of_kind;
  for (size_t i = 0; i < targets.size(); ++i)
    if (targets[i].kind == kind) of_kind.push_back(i);
  Flip flip;
  flip.target = of_kind[random.below(of_kind.size())];
  const FlipTarget& target = targets[flip.target];
  const bool counter = !target.flat.defined() || !target.flat.is_floating_point();
  flip.element = static_cast<int64_t>(random.below(static_cast<uint64_t>(target.numel)));
  flip.bit = static_cast<int>(random.below(counter ? 64 : 32));
  flip.rank = static_cast<int>(random.below(static_cast<uint64_t>(ranks)));
  return flip;
}

void flip_bit(Replica& replica, const FlipTarget& target, const Flip& flip) {
  if (!target.flat.defined()) {
    Optimizer& optimizer = replica.optimizer();
    optimizer.set_updates(optimizer.updates() ^ static_cast<int64_t>(uint64_t{1} << flip.bit));
    return;
  }
  auto* bytes = static_cast<uint8_t*>(target.flat.data_ptr());
  bytes += (target.begin + flip.element) * static_cast<int64_t>(target.flat.element_size());
  bytes[flip.bit / 8] ^= static_cast<uint8_t>(1 << flip.bit % 8);  // little-endian
}

Snapshot::Snapshot(Replica& replica)
    : parameters_(replica.flat_parameters().clone()),
      buffers_(replica.flat_buffers().clone()),
      steps_tracked_(replica.steps_tracked()),
      updates_(replica.optimizer().updates()) {
  for (const Optimizer::State& state : replica.optimizer().state()) state_.push_back(state.values.clone());
}

void Snapshot::put_back(Replica& replica) const {
  replica.flat_parameters().copy_(parameters_);
  replica.flat_buffers().copy_(buffers_);
  for (size_t i = 0; i < state_.size(); ++i) at::Tensor(replica.optimizer().state()[i].values).copy_(state_[i]);
  replica.set_steps_tracked(steps_tracked_);
  replica.optimizer().set_updates(updates_);
}

}  // namespace dtrain
