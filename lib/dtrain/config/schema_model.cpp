// The keys of the network and its loss.
#include <algorithm>

#include "dtrain/config/schema.hpp"

namespace dtrain {

namespace {

std::string network_doc() {
  const bool one = std::ranges::count_if(networks(), &NetworkKind::per_pixel) == 1;
  return "The network; " + per_pixel_networks() +
         (one ? " is for segmentation, the only one." : " are for segmentation, the only ones.");
}

// `auto` is the first loss, except for tasks that it does not serve.
std::string loss_doc() {
  const LossKind& first = *losses().front();
  std::string out = "auto: ";
  for (const Task task : {Task::multilabel, Task::multiclass, Task::segmentation})
    if (const LossKind& natural = natural_loss(task); &natural != &first)
      out += natural.name + " for " + name_of(task) + ", ";
  out += "else " + first.name + " (" + first.long_name + ").";
  for (const LossKind* kind : losses())
    if (kind->doc != nullptr) out += " " + kind->doc();
  return out;
}

std::string when_lower_logits() {
  const auto names = names_where(networks(), [](const NetworkKind& kind) { return kind.lower_logits != nullptr; });
  return "`model.name` is " + join_last(names, "or") + ", with an encoder or at least 3 `model.levels`";
}

class ModelDescription {
 public:
  explicit ModelDescription(Experiment& e) : e_(e) {}

  std::vector<Key> all() {
    model();
    loss();
    return std::move(keys_);
  }

 private:
  Key& add(const std::string& name, Codec codec, const std::string& doc) {
    return keys_.emplace_back(name, std::move(codec), doc);
  }

  void model() {
    ModelOptions& m = e_.model;
    const bool own_layers = reads(*m.kind, "base_width") && m.encoder == nullptr;
    const std::string when_own_layers =
        "`model.name` is " + join_last(readers_of(networks(), "base_width"), "or") + " and `model.encoder` none";
    const std::vector<std::string> by = {"model.name", "model.encoder"};
    add("model.name", row_codec(m.kind, networks()), network_doc());
    add("model.outputs", optional_whole_codec(m.outputs, {.min = 1, .max = 1000000}),
        "Logits per picture, for " + per_pixel_networks() + " per pixel; must equal the number of classes in the data.")
        .default_is("the number of classes in the data");
    add("model.weights", path_codec(m.weights, PathRule::beside_file),
        "safetensors file to start from (`scripts/convert_weights` makes one from torchvision's); relative to the file "
        "that names it.")
        .default_is("none: a random start");
    add("model.base_width", whole_codec(m.base_width, {.min = 1, .max = 1024}),
        "Channels of the first block; twice as many at each level, at the bridge 2 to the levels times as many.")
        .only(own_layers, when_own_layers, by);
    add("model.levels", whole_codec(m.levels, {.min = 1, .max = 8}),
        "How often the picture is halved: its sides are multiples of 2 to this power.")
        .only(own_layers, when_own_layers, by)
        .older_runs_had("4");
    add("model.encoder", row_codec(m.encoder, encoders(), "none"),
        "A network in place of the first half, without its last layer; `model.weights` may be a file of that network, "
        "such as ImageNet's. The picture's sides are multiples of 32.")
        .only_of(*m.kind, networks())
        .older_runs_had("none");
    add("model.fused", flag_codec(m.fused),
        "Layers in passes of our own, which read memory less often, instead of LibTorch's operators one by one; the "
        "same numbers but for rounding, so another result. On a CPU with `precision: fp32` or `tf32`; in 16 bits there "
        "the operators compute either way. On a GPU norms with their ReLU and a DenseNet's blocks. A run that began "
        "without this key goes on without.")
        .older_runs_keep("false");
    add("model.dropout", real_codec(m.dropout, {.max = 1, .max_open = true}),
        "Probability of dropping a feature before the dense layer.")
        .only_of(*m.kind, networks());
  }

  void loss() {
    LossOptions& l = e_.loss;
    const LossKind& in_use = loss_in_use(l, e_.task);
    const auto when = [](const std::string& key) {
      return "the loss is " + join_last(readers_of(losses(), key), "or");
    };
    const std::vector<std::string> by = {"loss.name", "task", "data.format", "model.name"};
    add("loss.name", row_codec(l.kind, losses(), "auto"), loss_doc());
    add("loss.pos_weight", output_weights_codec(l.pos_weight),
        "Factor on the positive term of each output; balanced: negatives ÷ positives of each label in the training "
        "part.")
        .only(reads(in_use, "pos_weight"), when("pos_weight"), by);
    add("loss.class_weight", output_weights_codec(l.class_weight),
        "Factor on the loss of the samples of each class; balanced: all samples ÷ (classes × samples of this class), "
        "in "
        "the training part. The mean is over samples, not over factors.")
        .only(reads(in_use, "class_weight"), when("class_weight"), by)
        .older_runs_had("none");
    add("loss.gamma", real_codec(l.gamma, {.max = 100}),
        "How much less a label counts that is predicted well: its loss is multiplied by (1 - p) to this power.")
        .only(reads(in_use, "gamma"), when("gamma"), by)
        .older_runs_had("2");
    add("loss.dice", choice_codec(l.sums_over),
        "The pictures over which Dice is taken: global: all of a step, over all logical ranks and passes, so that the "
        "gradient does not depend on how they share the batch, for one more forward pass a step without gradients; "
        "per_rank: those of each pass of a logical rank, as data-parallel trainers usually have it.")
        .only(reads(in_use, "dice"), when("dice"), by)
        .older_runs_had("global");
    add("loss.deep_supervision", flag_codec(l.deep_supervision),
        "In training the network gives logits at lower resolutions too, each of half the sides, and the loss is its "
        "mean "
        "over them with weights 1, 1/2, 1/4 …, as in nnU-Net; masks are halved by nearest neighbour. Evaluation and "
        "prediction have the full resolution alone.")
        .only(lower_logits_of(e_.model) > 0, when_lower_logits(), {"model.name", "model.levels", "model.encoder"})
        .older_runs_had("false");
    add("loss.l2_kernels", real_codec(l.l2_kernels, {}),
        "λ of λ·Σw² over only the convolution kernels, added to the loss.");
    add("loss.label_smoothing", real_codec(l.label_smoothing, {.max = 1, .max_open = true}),
        "Share of the target spread evenly over all classes.")
        .only(reads(in_use, "label_smoothing"), when("label_smoothing"), by);
  }

  Experiment& e_;
  std::vector<Key> keys_;
};

}  // namespace

std::vector<Key> describe_model(Experiment& experiment) { return ModelDescription(experiment).all(); }

}  // namespace dtrain
