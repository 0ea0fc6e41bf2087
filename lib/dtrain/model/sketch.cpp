#include "dtrain/model/sketch.hpp"

#include "dtrain/base/error.hpp"

namespace dtrain {

LayerList::LayerList(const Module& network) {
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

}  // namespace dtrain
