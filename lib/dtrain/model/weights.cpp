#include "dtrain/model/weights.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/safetensors.hpp"

namespace dtrain {

namespace {

std::optional<at::ScalarType> scalar_type(const std::string& dtype) {
  static const std::map<std::string, at::ScalarType> kTypes{
      {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
      {"I32", at::kInt},    {"I16", at::kShort}, {"I8", at::kChar},  {"U8", at::kByte}};
  const auto found = kTypes.find(dtype);
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

bool ends_with_counter(const std::string& name) { return name.ends_with(".num_batches_tracked"); }

std::string shape_text(at::IntArrayRef shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + join(sizes, ", ") + "]";
}

bool same_but_for_first(at::IntArrayRef a, at::IntArrayRef b) {
  return !a.empty() && a.size() == b.size() && a.slice(1) == b.slice(1);
}

// "; the weights of that run: runs/a/best.safetensors", where these are in `run`.
std::string best_of(const std::filesystem::path& run) {
  const std::filesystem::path best = run / "best.safetensors";
  std::error_code unread;
  return std::filesystem::exists(best, unread) ? "; use the best weights of that run, model.weights=" + best.string()
                                               : "";
}

// best.safetensors and files of others hold the model's tensors alone.
void require_no_checkpoint(const SafetensorsFile& file, const std::string& path) {
  if (!file.metadata().contains("state")) return;
  const std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal().parent_path();
  throw ConfigError("model.weights " + path + " is a checkpoint: a run resumes from it with --resume " +
                    shell_word(path) + ", model.weights starts one from weights alone" + best_of(folder.parent_path()));
}

// The network whose tensors have these names, counters apart, which old files lack; "" where none has.
std::string network_of(const std::vector<std::string>& names) {
  for (const NetworkKind* kind : networks()) {
    ModelOptions options;
    options.kind = kind;
    const NetworkShape shape{
        .channels = kind->image_channels, .height = kind->least_side, .width = kind->least_side, .outputs = 1};
    const auto network = kind->make(options, shape);
    std::set<std::string> given, wanted;
    const std::string lower = network->lower_head_prefix();
    for (const std::string& name : names)
      if (!ends_with_counter(name) && (lower.empty() || !name.starts_with(lower)))
        given.insert(network->current_name(name));
    for (const NamedTensor& tensor : network->named_parameters()) wanted.insert(tensor.name);
    for (const NamedTensor& tensor : network->named_buffers())
      if (!ends_with_counter(tensor.name)) wanted.insert(tensor.name);
    if (given == wanted) return kind->name;
  }
  return "";
}

// Matches a file with a network, then copies: nothing is written before all of it is known to fit.
class Loader {
 public:
  Loader(Network& network, const std::string& path) : path_(path), file_(SafetensorsFile::read(path)) {
    require_no_checkpoint(file_, path);
    tensors_ = network.named_parameters();
    for (NamedTensor& buffer : network.named_buffers()) tensors_.push_back(std::move(buffer));
    tensors_in_all_ = tensors_.size();
    head_ = network.head();
    lower_ = network.lower_head_prefix();
    if (const auto part = network.borrowed_part(); part && !holds_any_of(part->prefix)) borrow(*part);
    for (const TensorEntry& entry : file_.entries()) {
      if (std::ranges::find(unused_, entry.name) != unused_.end()) continue;
      if (!entries_.emplace(network.current_name(prefix_ + entry.name), &entry).second)
        wrong_.push_back("twice, under an old and a new name: " + entry.name);
    }
    match_head();
  }

  std::string load() {
    for (const NamedTensor& tensor : tensors_) match(tensor);
    lower_unused_ = std::erase_if(entries_, [&](const auto& entry) { return is_lower(entry.first); });
    for (const auto& [name, entry] : entries_) wrong_.push_back("unexpected: " + name + " " + shape_text(entry->shape));
    if (!wrong_.empty())
      throw DataError(with_list("weights " + path_ + " do not fit the network in " +
                                    count_of(std::ssize(wrong_), "tensor") + "; " + advice() + ":",
                                wrong_));
    std::vector<at::Tensor> values;
    for (const Pair& pair : pairs_) values.push_back(value_of(pair));
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < pairs_.size(); ++i) pairs_[i].tensor.copy_(values[i]);
    return report();
  }

 private:
  struct Pair {
    at::Tensor tensor;
    const TensorEntry* entry;
  };

  bool holds_any_of(const std::string& prefix) const {
    return std::ranges::any_of(file_.entries(), [&](const TensorEntry& e) { return e.name.starts_with(prefix); });
  }

  // The file is another network's, for a part of this one.
  void borrow(const Network::BorrowedPart& part) {
    prefix_ = part.prefix;
    unused_ = part.unused;
    std::erase_if(tensors_, [&](const NamedTensor& tensor) { return !tensor.name.starts_with(prefix_); });
  }

  // The head counts as one: it is left at random whole as soon as its number of outputs differs.
  void match_head() {
    for (const NamedTensor& tensor : tensors_) {
      const auto found = entries_.find(tensor.name);
      if (!is_head(tensor.name) || found == entries_.end()) continue;
      const at::IntArrayRef shape = found->second->shape;
      if (shape == tensor.tensor.sizes() || !same_but_for_first(shape, tensor.tensor.sizes())) continue;
      head_change_ = std::to_string(shape[0]) + " → " + std::to_string(tensor.tensor.size(0));
    }
  }

  void match(const NamedTensor& tensor) {
    const auto found = entries_.find(tensor.name);
    if (found == entries_.end()) {
      if (ends_with_counter(tensor.name)) {
        ++counters_absent_;
      } else if (is_lower(tensor.name)) {
        ++lower_absent_;
      } else {
        wrong_.push_back("missing: " + tensor.name + " " + shape_text(tensor.tensor.sizes()));
        missing_.push_back(tensor.name);
      }
      return;
    }
    const TensorEntry& entry = *found->second;
    entries_.erase(found);
    const at::IntArrayRef have = entry.shape, want = tensor.tensor.sizes();
    const auto type = scalar_type(entry.dtype);
    if (!type || (at::isFloatingType(tensor.tensor.scalar_type()) && !at::isFloatingType(*type))) {
      wrong_.push_back("of type " + entry.dtype + ": " + tensor.name);
    } else if (have == want) {
      if (!is_head(tensor.name) || head_change_.empty()) pairs_.push_back({tensor.tensor, &entry});
    } else if (!is_head(tensor.name) || !same_but_for_first(have, want)) {
      wrong_.push_back("of another shape: " + tensor.name + " " + shape_text(have) + ", the network has " +
                       shape_text(want));
    }
  }

  // What the file is instead, as far as names tell, or what to do. Once all tensors have been matched: entries_ has the
  // unexpected ones.
  std::string advice() const {
    std::vector<std::string> names;
    for (const TensorEntry& entry : file_.entries()) names.push_back(entry.name);
    const size_t of_names = entries_.size() + missing_.size();
    const std::string key = prefix_.empty() ? "model.name=" : "model.encoder=";
    if (const std::string other = of_names > 0 ? network_of(names) : ""; !other.empty())
      return "its tensors have the names of " + other + "'s, set " + key + other + " or give another file";
    if (of_names == wrong_.size() && entries_.empty())
      return missing_ == head_ ? "save the network with its last layer"
                               : "the file holds only a part of this network, or one with fewer layers";
    if (of_names == wrong_.size() && missing_.empty())
      return "the file holds more than this network, or one with more layers";
    return "give the file of this network under torchvision's names (scripts/convert_weights makes it)";
  }

  at::Tensor value_of(const Pair& pair) const {
    const auto bytes = file_.bytes(*pair.entry);
    at::Tensor value = at::empty(pair.entry->shape, at::TensorOptions(*scalar_type(pair.entry->dtype)));
    if (!bytes.empty()) std::memcpy(value.data_ptr(), bytes.data(), bytes.size());
    if (value.is_floating_point() && !value.isfinite().all().item<bool>())
      throw DataError("weights " + path_ + ": tensor '" + pair.entry->name +
                      "' holds NaN or Inf; the run that wrote it had diverged, use an older file");
    return value;
  }

  std::string report() const {
    std::string line = "weights " + std::filesystem::path(path_).filename().string() + ": " +
                       std::to_string(pairs_.size()) + " of " + std::to_string(tensors_in_all_) + " tensors loaded";
    if (!prefix_.empty()) line += ", all of the encoder's; the others left at random";
    if (!head_change_.empty()) line += "; left at random: " + join(head_, ", ") + " (" + head_change_ + ")";
    if (counters_absent_ > 0)
      line += "; num_batches_tracked absent, " + count_of(counters_absent_, "counter") + " left as they were";
    if (lower_absent_ > 0)
      line += "; left at random: " + count_of(lower_absent_, "tensor") + " of deep supervision, which the file lacks";
    if (lower_unused_ > 0)
      line += "; left out: " + count_of(static_cast<int64_t>(lower_unused_), "tensor") +
              " of deep supervision, which loss.deep_supervision would use";
    return line;
  }

  bool is_lower(const std::string& name) const { return !lower_.empty() && name.starts_with(lower_); }
  bool is_head(const std::string& name) const { return std::ranges::find(head_, name) != head_.end(); }

  std::string path_;
  SafetensorsFile file_;
  std::map<std::string, const TensorEntry*> entries_;  // by current name; those not yet matched
  std::string prefix_;                                 // of the names here, where the file is a part's
  std::vector<std::string> unused_;                    // names of the file
  std::vector<NamedTensor> tensors_;                   // of the network, or of its part
  size_t tensors_in_all_ = 0;
  std::vector<std::string> head_;
  std::string head_change_;  // "1000 → 14", empty when the head fits
  std::vector<Pair> pairs_;
  std::vector<std::string> wrong_;
  std::vector<std::string> missing_;  // names of those among them
  int64_t counters_absent_ = 0;
  std::string lower_;  // prefix of the names of deep supervision's layers
  int64_t lower_absent_ = 0;
  size_t lower_unused_ = 0;
};

}  // namespace

std::string load_weights(Network& network, const std::string& path) {
  require_weights_file(path);
  return Loader(network, path).load();
}

void require_weights_file(const std::string& path) {
  std::error_code unread;
  const std::filesystem::file_type type = std::filesystem::status(path, unread).type();
  if (type == std::filesystem::file_type::not_found)
    throw MissingError("model.weights " + path +
                       " does not exist; name a safetensors file, or leave the key out for a random start");
  if (type == std::filesystem::file_type::directory)
    throw ConfigError("model.weights " + path + " is a folder, not a safetensors file" + best_of(path));
}

}  // namespace dtrain
