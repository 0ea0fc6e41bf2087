// dtrain export: a trained network as an ONNX file.
#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands/commands.hpp"
#include "commands/free_output.hpp"
#include "commands/predict_member.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/tensors.hpp"
#include "dtrain/checkpoint/weights_origin.hpp"
#include "dtrain/data/pixels/transform.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/safetensors.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/model/network.hpp"
#include "dtrain/model/onnx_file.hpp"
#include "job/named_checkpoint.hpp"
#include "job/other_pictures.hpp"
#include "line/versions.hpp"

namespace dtrain {
namespace {

using nlohmann::ordered_json;

/// A network with the weights of a file, and what the file says of itself.
struct Trained {
  std::string path;
  WeightsOrigin origin;
  std::string sha256;
  NetworkShape shape;
  std::shared_ptr<Network> network;
};

Trained trained_network(const std::string& path, const Config& config, const Log& log) {
  const Experiment& e = config.experiment;
  const SafetensorsFile file = SafetensorsFile::read(path);
  Trained trained{path, weights_origin(file.metadata(), path), "", {}, nullptr};
  const WeightsOrigin& origin = trained.origin;
  if (origin.classes.empty())
    throw DataError(path + " does not name the classes of its network; use best.safetensors or a checkpoint of a run");
  require_own_network(file.metadata(), path, config);
  known_classes(origin, e.data, path);  // refuses a configuration that says something else
  trained.sha256 = result_sha256(file, origin.prefix);
  trained.shape = {.channels = e.data.image.channels,
                   .height = e.data.image.seen_height(),
                   .width = e.data.image.seen_width(),
                   .outputs = logits_for(e.loss, e.task, static_cast<int64_t>(origin.classes.size()))};
  if (const std::string other = other_pictures(file.metadata(), path, config); !other.empty()) log.warning(other);
  trained.network = make_unfilled_network(e.model, trained.shape);
  std::vector<FileTensor> tensors;
  for (const auto& group : {trained.network->named_parameters(), trained.network->named_buffers()})
    for (const NamedTensor& one : group) tensors.push_back({origin.prefix + one.name, one.tensor});
  fill_tensors(file, path, tensors);
  trained.network->eval();
  return trained;
}

/// Writes into the graph what the loader does to pixels of the network's own size: by the same operations on float32.
GraphValue pixels_to_input(const GraphValue& stored, const ImageOptions& image) {
  ForwardGraph& graph = *stored.graph;
  const PictureForm form = picture_form(image);
  const auto number = [&](const std::string& name, double value) {
    return graph.constant("pixels." + name, at::scalar_tensor(value, at::kFloat));
  };
  const auto by_channel = [&](const std::string& name, const float* values) {
    const std::vector<float> all(values, values + image.channels);
    return graph.constant("pixels." + name, at::tensor(all).view({image.channels, 1, 1}));
  };
  GraphValue x = stored;
  if (image.range_high != image.range_low) {
    x = graph.add("Sub", {x, number("low", image.range_low)});
    x = graph.add("Mul", {x, number("scale", 1 / (image.range_high - image.range_low))});
    x = graph.add("Clip", {x, number("black", 0), number("white", 1)});
  } else {
    x = graph.add("Mul", {x, number("scale", 1.0F / 255)});
  }
  x = graph.add("Sub", {x, by_channel("mean", form.mean)});
  return graph.add("Mul", {x, by_channel("factor", form.factor)});
}

/// data.image as the configuration writes it, what has no effect left out.
ordered_json image_json(const ImageOptions& image) {
  ordered_json json = {
      {"size", {image.height, image.width}}, {"channels", image.channels}, {"resize", name_of(image.resize)}};
  if (!image.files.empty()) json["files"] = image.files;
  if (image.slices > 1) json["slices"] = image.slices;
  if (image.window_height > 0) json["window"] = {image.window_height, image.window_width};
  if (image.range_high != image.range_low) json["range"] = {image.range_low, image.range_high};
  json["mean"] = image.mean.empty() ? usual_mean(image.channels) : image.mean;
  json["std"] = image.std.empty() ? usual_std(image.channels) : image.std;
  return json;
}

std::map<std::string, std::string> description_of(const Trained& trained, const Experiment& e, OnnxInput input) {
  std::map<std::string, std::string> all = {{"task", name_of(e.task)},
                                            {"classes", ordered_json(trained.origin.classes).dump()},
                                            {"input", name_of(input)},
                                            {"image", image_json(e.data.image).dump()},
                                            {"weights_sha256", trained.sha256}};
  const Fitted& fitted = trained.origin.fitted;
  if (fitted.temperature) all["temperature"] = shortest(*fitted.temperature);
  if (!fitted.thresholds.empty()) {
    std::vector<double> thresholds;
    for (const auto& one : fitted.thresholds) thresholds.push_back(one.value_or(0.5));
    all["thresholds"] = ordered_json(thresholds).dump();
  }
  if (!trained.origin.mask_values.empty())
    all["mask_values"] = ordered_json(trained.origin.mask_values).dump();  // a list of pairs
  return all;
}

/// Scores of the network on `input`: of the logits, divided by the temperature that eval has fitted, if it has.
void add_scores(const Trained& trained, const Experiment& e, const GraphValue& input) {
  LossOptions options = e.loss;  // of which the way from logits to probabilities alone counts
  options.pos_weight = options.class_weight = {};
  GraphValue logits = trained.network->trace(input);
  if (const auto& temperature = trained.origin.fitted.temperature; temperature && e.task != Task::segmentation) {
    ForwardGraph& graph = *input.graph;
    logits = graph.add("Div", {logits, graph.constant("temperature", at::scalar_tensor(*temperature, at::kFloat))});
  }
  Loss(options, e.task, {}).probabilities(logits, trained.shape.outputs);
}

std::string shape_text_of(const OnnxTensor& tensor) {
  std::string text = tensor.name + " float32 [N";
  for (const int64_t size : tensor.shape) text += ", " + std::to_string(size);
  return text + "]";
}

std::string fitted_line(const Fitted& fitted) {
  std::vector<std::string> parts;
  if (fitted.temperature) parts.push_back("temperature " + short_number(*fitted.temperature, 4) + ", in the graph");
  if (!fitted.thresholds.empty()) parts.emplace_back("thresholds, in the metadata");
  return parts.empty() ? "" : "  fitted  " + join(parts, "; ") + "\n";
}

std::string input_words(const ImageOptions& image, OnnxInput input) {
  if (input == OnnxInput::normalised) return "(pixel − mean) ÷ std, pixels in [0, 1]";
  if (image.range_high == image.range_low) return "pixel values 0 … 255";
  return "pixel values, of which " + shortest(image.range_low) + " … " + shortest(image.range_high) + " is the range";
}

}  // namespace

int run_export(const ExportCommand& command, const Config& config, const Log& log) {
  const Experiment& e = config.experiment;
  if (!command.output.ends_with(".onnx")) throw UsageError("--output '" + command.output + "' must end in .onnx");
  require_free_output(command.output, command.force);
  const NamedWeights named = weights_at(command.checkpoint);
  if (!named.note.empty()) log.warning(named.note);
  const Trained trained = trained_network(named.path, config, log);
  ForwardGraph graph(*trained.network);
  const NetworkShape& shape = trained.shape;
  const OnnxTensor pictures{"pictures", {shape.channels, shape.height, shape.width}};
  OnnxTensor scores{"scores", trained.network->layers(shape).back().output};
  scores.shape.front() = static_cast<int64_t>(trained.origin.classes.size());  // of which background is none
  GraphValue x = graph.input(pictures.name);
  if (command.input == OnnxInput::raw) x = pixels_to_input(x, e.data.image);
  add_scores(trained, e, x);
  graph.finish(scores.name);
  const std::string bytes = onnx_file({.graph = graph,
                                       .input = pictures,
                                       .output = scores,
                                       .name = e.model.kind->name,
                                       .version = program_version(),
                                       .metadata = description_of(trained, e, command.input)});
  write_file_atomically(command.output, bytes);
  std::printf(
      "%s: the %s of %s, %s bytes, ONNX operator set %lld\n  input   %s: %s\n  output  %s: probabilities of %s\n"
      "%snext: docs/export.md shows what to put in\n",
      printable(command.output).c_str(), e.model.kind->name.c_str(), printable(named.path).c_str(),
      with_commas(static_cast<int64_t>(bytes.size())).c_str(), static_cast<long long>(kOnnxOperatorSet),
      shape_text_of(pictures).c_str(), input_words(e.data.image, command.input).c_str(), shape_text_of(scores).c_str(),
      printable(join(trained.origin.classes, ", ")).c_str(), fitted_line(trained.origin.fitted).c_str());
  return exit_code::kDone;
}

}  // namespace dtrain
