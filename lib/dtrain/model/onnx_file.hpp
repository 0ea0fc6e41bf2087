#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dtrain/model/graph.hpp"

namespace dtrain {

/// The versions that files are written for. Operator set 17 (2022) is read by onnxruntime 1.12, TensorRT 8.5 and what
/// came after them; all operators here mean the same in later sets.
inline constexpr int64_t kOnnxOperatorSet = 17;
inline constexpr int64_t kOnnxFormat = 8;  ///< "IR version"

/// What goes in or comes out: float32, and the first dimension, the batch, is of any size.
struct OnnxTensor {
  std::string name;
  std::vector<int64_t> shape;  ///< without the batch
};

struct OnnxModel {
  const ForwardGraph& graph;
  OnnxTensor input;
  OnnxTensor output;
  std::string name;                             ///< of the network
  std::string version;                          ///< of dtrain
  std::map<std::string, std::string> metadata;  ///< metadata_props
};

/// The bytes of an ONNX file (a protobuf ModelProto, onnx/onnx.proto). A function of its argument alone: no time, no
/// host. Throws ConfigError if they would be 2 GB or more, which no reader of such a file takes; DataError naming a
/// tensor that holds NaN or Inf.
std::string onnx_file(const OnnxModel& model);

/// The first of these: `bytes` of weights and what describes them.
void require_onnx_size(int64_t bytes);

}  // namespace dtrain
