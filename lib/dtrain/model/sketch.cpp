#include "dtrain/model/sketch.hpp"

#include <functional>
#include <numeric>

#include "dtrain/base/error.hpp"

namespace dtrain {

LayerList::LayerList(const Module& network, bool fused) : fused_(fused) {
  for (const Module::Named& below : network.modules()) names_[below.module] = below.name;
}

void LayerList::add(const Module& module, const std::string& kind, const std::vector<int64_t>& output, int64_t flop) {
  const auto named = names_.find(&module);
  check(named != names_.end(), "every layer of a forward pass is registered in its network");
  int64_t parameters = 0;
  for (const NamedTensor& parameter : module.own_parameters()) parameters += parameter.tensor.numel();
  layers_.push_back({named->second, kind, output, parameters, flop});
}

void LayerList::add(const std::string& name, const std::string& kind, const std::vector<int64_t>& output) {
  layers_.push_back({name, kind, output, 0, 0});
}

static int64_t numel_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

static std::vector<size_t> numbers_of(const std::vector<Sketch>& sketches) {
  std::vector<size_t> numbers;
  for (const Sketch& sketch : sketches) numbers.push_back(sketch.value);
  return numbers;
}

Sketch LayerList::picture(const std::vector<int64_t>& shape) {
  check(tape_.values.empty(), "a pass begins with one picture");
  tape_.values.push_back(numel_of(shape));
  return {shape, this, 0};
}

Sketch LayerList::make(PassTape::Op op, const std::vector<Sketch>& of, const std::vector<int64_t>& shape,
                       int64_t weights) {
  tape_.values.push_back(numel_of(shape));
  tape_.steps.push_back({.op = op, .reads = numbers_of(of), .makes = tape_.values.size() - 1, .weights = weights});
  return {shape, this, tape_.values.size() - 1};
}

void LayerList::change(PassTape::Op op, const std::vector<Sketch>& of) {
  tape_.steps.push_back({.op = op, .reads = numbers_of(of), .makes = of.front().value});
}

Sketch LayerList::add_step(PassTape::Step step, const std::vector<int64_t>& made) {
  step.makes = step.reads.front();
  if (!made.empty()) {
    tape_.values.push_back(numel_of(made));
    step.makes = tape_.values.size() - 1;
  }
  tape_.steps.push_back(step);
  return {made, this, step.makes};
}

}  // namespace dtrain
