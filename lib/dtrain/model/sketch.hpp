#pragma once
#include <map>
#include <string>
#include <vector>

#include "dtrain/model/network.hpp"

namespace dtrain {

/// Collects the layers that a forward pass over sketches walks through.
class LayerList {
 public:
  /// Learns the dotted names of the modules below `network`.
  explicit LayerList(const Module& network);

  /// A layer with a module of its own: name and parameters are the module's.
  void add(const Module& module, const std::string& kind, const std::vector<int64_t>& output, int64_t flop = 0);
  /// A layer without parameters, named by the network.
  void add(const std::string& name, const std::string& kind, const std::vector<int64_t>& output);

  const std::vector<Network::Layer>& layers() const { return layers_; }

 private:
  std::map<const Module*, std::string> names_;
  std::vector<Network::Layer> layers_;
};

/// Stands in for a tensor in a forward pass that computes shapes alone. A network's forward pass is written once, as a
/// template over the kind of value that flows through it, so that what `dtrain check` prints cannot drift from what
/// is trained. Every layer and function of layers.hpp takes both kinds.
struct Sketch {
  std::vector<int64_t> shape;  ///< without the batch dimension: {C, H, W} or {features}
  LayerList* list = nullptr;   ///< outlives the pass

  Sketch reshaped(std::vector<int64_t> to) const { return {std::move(to), list}; }
};

/// Gives `Derived`, which has `template <class X> X run(X x) const`, its forward() and layers().
template <class Derived>
class NetworkOf : public Network {
 public:
  at::Tensor forward(const at::Tensor& images) override { return self().run(images); }

  std::vector<Layer> layers(const NetworkShape& shape) const override {
    LayerList list(*this);
    self().run(Sketch{{shape.channels, shape.height, shape.width}, &list});
    return list.layers();
  }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }
};

}  // namespace dtrain
