#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "dtrain/device/device_graph.hpp"

namespace dtrain {

/// Forward and backward of one micro-batch, as a recorded graph of the device's work. The launches of a small batch
/// cost the host more time than the device needs for them; the graph is one launch.
/// A graph that misses something goes wrong silently: a value drawn on the host stays in it forever, memory is read
/// that is now used for something else. So it is proved before it is used: the first pass runs as always and is then
/// recorded, the second one runs both ways, on a different batch from the recorded one, and must give the same bits.
/// From the third on only the graph runs; but the first time that another graph has run in between, in the memory that
/// all graphs share, it is proved once more.
class GraphedPass {
 public:
  /// Valid until any graph of the process runs next, this one or another: read or copy it before then.
  struct Result {
    at::Tensor logits;  ///< both detached: a kept autograd graph would tie later passes to the recording's stream
    at::Tensor losses;  ///< [n]
    /// Of a replay alone: where in it each bucket of gradients is filled. Empty if the pass ran in another way.
    std::vector<Mark> filled = {};
  };
  /// recording: the graph that this call is recorded in, which gives the marks of `filled`; null if it runs.
  using Work = std::function<Result(const at::Tensor& images, const at::Tensor& targets, DeviceGraph* recording)>;

  /// `work`: what is recorded; see DeviceGraph::record for what it may not do. `changed`: all tensors whose values it
  /// changes in place (gradients, BatchNorm's statistics); their memory must not move.
  GraphedPass(std::unique_ptr<DeviceGraph> graph, Work work, std::vector<at::Tensor> changed);
  GraphedPass(const GraphedPass&) = delete;  // the recording holds its address
  GraphedPass& operator=(const GraphedPass&) = delete;

  /// True for a batch of the shapes of the first one: others cannot run here.
  bool fits(const at::Tensor& images, const at::Tensor& targets) const;

  /// Throws InternalError when the graph fails its proof, DeviceError as
  /// DeviceGraph::record.
  Result run(const at::Tensor& images, const at::Tensor& targets);

 private:
  void prove();
  std::vector<at::Tensor> values(const Result& result) const;

  std::unique_ptr<DeviceGraph> graph_;
  Work work_;
  std::vector<at::Tensor> changed_;
  at::Tensor images_;  // what the recorded work reads; undefined before it is recorded
  at::Tensor targets_;
  Result result_;  // what it writes
  bool proven_ = false;
  bool proven_among_others_ = false;
};

}  // namespace dtrain
