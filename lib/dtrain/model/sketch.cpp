#include "dtrain/model/sketch.hpp"

#include "dtrain/base/error.hpp"

namespace dtrain {

LayerList::LayerList(const torch::nn::Module& network) {
  for (const auto& item : network.named_modules(/*name_prefix=*/"", /*include_self=*/false))
    names_[item.value().get()] = item.key();
}

void LayerList::add(const torch::nn::Module& module, const std::string& kind, const std::vector<int64_t>& output,
                    int64_t flop) {
  const auto named = names_.find(&module);
  check(named != names_.end(), "every layer of a forward pass is registered in its network");
  int64_t parameters = 0;
  for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) parameters += parameter.numel();
  layers_.push_back({named->second, kind, output, parameters, flop});
}

void LayerList::add(const std::string& name, const std::string& kind, const std::vector<int64_t>& output) {
  layers_.push_back({name, kind, output, 0, 0});
}

}  // namespace dtrain
