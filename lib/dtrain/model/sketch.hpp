#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/model/network.hpp"
#include "dtrain/model/pass_tape.hpp"

namespace dtrain {

struct Sketch;

/// Collects the layers that a forward pass over sketches walks through, and what each of its operators reads and makes.
class LayerList {
 public:
  /// Learns the dotted names of the modules below `network`.
  LayerList(const Module& network, bool fused);

  bool fused() const { return fused_; }
  /// What `pass` returns; its operators stay off the tape, because others compute the same.
  template <class Pass>
  auto untaped(const Pass& pass) {
    const PassTape before = tape_;
    auto result = pass();
    tape_ = before;
    return result;
  }
  /// Appends to the tape a step that makes a value of this shape, or without one changes what it reads.
  Sketch add_step(PassTape::Step step, const std::vector<int64_t>& made);

  /// A layer with a module of its own: name and parameters are the module's.
  void add(const Module& module, const std::string& kind, const std::vector<int64_t>& output, int64_t flop = 0);
  /// A layer without parameters, named by the network.
  void add(const std::string& name, const std::string& kind, const std::vector<int64_t>& output);

  /// The picture, {C, H, W}: where a pass begins.
  Sketch picture(const std::vector<int64_t>& shape);
  /// What `op` makes of others. `weights`: floats of its kernel or matrix.
  Sketch make(PassTape::Op op, const std::vector<Sketch>& of, const std::vector<int64_t>& shape, int64_t weights = 0);
  /// `op` changes the first of these.
  void change(PassTape::Op op, const std::vector<Sketch>& of);

  const std::vector<Network::Layer>& layers() const { return layers_; }
  const PassTape& tape() const { return tape_; }

 private:
  std::map<const Module*, std::string> names_;
  bool fused_;
  PassTape tape_;
  std::vector<Network::Layer> layers_;
};

/// Stands in for a tensor in a forward pass that computes only shapes. A network's forward pass is written once, as a
/// template over the kind of value that flows through it, so that what `dtrain check` prints cannot drift from what
/// is trained. Every layer and function of layers.hpp takes both kinds, and GraphValue.
struct Sketch {
  std::vector<int64_t> shape;  ///< without the batch dimension: {C, H, W} or {features}
  LayerList* list = nullptr;   ///< outlives the pass
  size_t value = 0;            ///< its number on the list's tape

  /// What `op` makes of only this one.
  Sketch through(PassTape::Op op, const std::vector<int64_t>& to, int64_t weights = 0) const {
    return list->make(op, {*this}, to, weights);
  }
};

/// Gives `Derived`, which has `template <class X> X run(X x) const`, its forward(), layers(), tape() and trace(). One
/// that ends in global average pooling and a linear layer has this pass in two parts, run(x) = classify(maps(x)), both
/// templates: maps() ends before the pooling. From these follow ends_in_pooling() and forward_pooled(). One that can
/// give logits at lower resolutions has `run(x, std::vector<X>* lower)` too, which appends them, for forward_all();
/// sketches of a pass show them.
template <class Derived>
class NetworkOf : public Network {
 public:
  at::Tensor forward(const at::Tensor& images) override { return self().run(images); }

  std::vector<at::Tensor> forward_all(const at::Tensor& images) override {
    if constexpr (kHasLower<Derived>) {
      std::vector<at::Tensor> lower;
      at::Tensor logits = self().run(images, &lower);
      lower.push_back(std::move(logits));
      std::reverse(lower.begin(), lower.end());
      return lower;
    } else {
      return Network::forward_all(images);
    }
  }

  bool ends_in_pooling() const override { return kEndsInPooling<Derived>; }

  Network::PooledPass forward_pooled(const at::Tensor& images) override {
    if constexpr (kEndsInPooling<Derived>) {
      const at::Tensor maps = self().maps(images);
      return {self().classify(maps), maps};
    } else {
      return Network::forward_pooled(images);
    }
  }

  std::vector<Layer> layers(const NetworkShape& shape) const override { return walk(shape, false).layers(); }

  PassTape tape(const NetworkShape& shape, bool fused) const override { return walk(shape, fused).tape(); }

  GraphValue trace(const GraphValue& images) const override { return self().run(images); }

 private:
  LayerList walk(const NetworkShape& shape, bool fused) const {
    LayerList list(*this, fused);
    const Sketch picture = list.picture({shape.channels, shape.height, shape.width});
    if constexpr (kHasLower<Derived>) {
      std::vector<Sketch> lower;
      self().run(picture, &lower);
    } else {
      self().run(picture);
    }
    return list;
  }

  // Asked for where Derived is complete.
  template <class D>
  static constexpr bool kEndsInPooling = requires(const D& network, const at::Tensor& x) {
    network.classify(network.maps(x));
  };

  template <class D>
  static constexpr bool kHasLower = requires(const D& network, const at::Tensor& x, std::vector<at::Tensor>* lower) {
    network.run(x, lower);
  };

  const Derived& self() const { return static_cast<const Derived&>(*this); }
};

}  // namespace dtrain
