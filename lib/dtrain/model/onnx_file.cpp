#include "dtrain/model/onnx_file.hpp"

#include <ATen/core/Tensor.h>

#include <limits>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/records/protobuf_message.hpp"

namespace dtrain {

namespace {

using Proto = ProtobufMessage;  // the numbers of fields are those of onnx.proto

constexpr int64_t kFloat = 1, kWhole = 7;  // TensorProto.DataType

// AttributeProto
Proto attribute_proto(const ForwardGraph::Attribute& attribute) {
  enum : int64_t { kOfFloat = 1, kOfInt = 2, kOfInts = 7 };
  Proto proto;
  proto.text(1, attribute.name);
  if (const auto* real = std::get_if<float>(&attribute.value)) return proto.real(2, *real).number(20, kOfFloat);
  if (const auto* whole = std::get_if<int64_t>(&attribute.value)) return proto.number(3, *whole).number(20, kOfInt);
  for (const int64_t one : std::get<std::vector<int64_t>>(attribute.value)) proto.number(8, one);
  return proto.number(20, kOfInts);
}

// NodeProto
Proto node_proto(const ForwardGraph::Node& node) {
  Proto proto;
  for (const std::string& input : node.inputs) proto.text(1, input);
  proto.text(2, node.output).text(3, node.output).text(4, node.op);
  for (const ForwardGraph::Attribute& attribute : node.attributes) proto.message(5, attribute_proto(attribute));
  return proto;
}

// TensorProto
Proto tensor_proto(const NamedTensor& named) {
  const bool whole = named.tensor.scalar_type() == at::kLong;  // a constant of the graph
  const at::Tensor row_major = named.tensor.detach().cpu().to(whole ? at::kLong : at::kFloat).contiguous();
  if (!row_major.isfinite().all().item<bool>())
    throw DataError("the weights hold NaN or Inf in " + named.name + "; use another checkpoint");
  Proto proto;
  for (const int64_t size : row_major.sizes()) proto.number(1, size);
  proto.number(2, whole ? kWhole : kFloat).text(8, named.name);
  return proto.text(9, {static_cast<const char*>(row_major.const_data_ptr()), row_major.nbytes()});
}

// ValueInfoProto
Proto value_proto(const OnnxTensor& value) {
  Proto shape;
  shape.message(1, Proto().text(2, "N"));
  for (const int64_t size : value.shape) shape.message(1, Proto().number(1, size));
  const Proto tensor = Proto().number(1, kFloat).message(2, shape);
  return Proto().text(1, value.name).message(2, Proto().message(1, tensor));
}

}  // namespace

void require_onnx_size(int64_t bytes) {
  if (bytes > std::numeric_limits<int32_t>::max())
    throw ConfigError("the network has " + with_commas(bytes >> 20) +
                      " MB of weights, and an ONNX file holds less than 2,048 MB; train a smaller network for it");
}

std::string onnx_file(const OnnxModel& model) {
  constexpr int64_t kDescription = 1 << 20;  // of the nodes and names: more than the deepest network takes
  int64_t bytes = kDescription;
  for (const NamedTensor& named : model.graph.tensors()) bytes += named.tensor.numel() * 4;
  require_onnx_size(bytes);
  Proto graph;
  for (const ForwardGraph::Node& node : model.graph.nodes()) graph.message(1, node_proto(node));
  graph.text(2, model.name);
  for (const NamedTensor& named : model.graph.tensors()) graph.message(5, tensor_proto(named));
  graph.message(11, value_proto(model.input)).message(12, value_proto(model.output));
  Proto whole;
  whole.number(1, kOnnxFormat).text(2, "dtrain").text(3, model.version);
  whole.message(8, Proto().number(2, kOnnxOperatorSet));
  for (const auto& [key, value] : model.metadata) whole.message(14, Proto().text(1, key).text(2, value));
  return whole.message(7, graph).take();
}

}  // namespace dtrain
