#include <algorithm>
#include <iterator>

#include "dtrain/base/text.hpp"
#include "dtrain/model/options.hpp"

namespace dtrain {

// Each is defined in its own file.
extern const NetworkKind kDenseNet121, kDenseNet169, kDenseNet201, kResNet18, kResNet34, kResNet50, kResNet101,
    kResNet152, kUNet, kSmallCnn;

const RowList<NetworkKind>& networks() {
  static const RowList<NetworkKind> all = {&kDenseNet121, &kDenseNet169, &kDenseNet201, &kResNet18, &kResNet34,
                                           &kResNet50,    &kResNet101,   &kResNet152,   &kUNet,     &kSmallCnn};
  return all;
}

const RowList<NetworkKind>& encoders() {
  static const RowList<NetworkKind> all = [] {
    RowList<NetworkKind> some;
    std::ranges::copy_if(networks(), std::back_inserter(some),
                         [](const NetworkKind* kind) { return kind->encoder != nullptr; });
    return some;
  }();
  return all;
}

int64_t side_multiple_of(const ModelOptions& options) {
  const NetworkKind& kind = *options.kind;
  return kind.side_multiple_by != nullptr ? kind.side_multiple_by(options) : kind.side_multiple;
}

int64_t image_channels_of(const ModelOptions& options) {
  return (options.encoder != nullptr ? options.encoder : options.kind)->image_channels;
}

std::string wrong_size(const ModelOptions& options, int64_t height, int64_t width, const std::string& key) {
  const NetworkKind& kind = *options.kind;
  const int64_t multiple = side_multiple_of(options),
                least = kind.side_multiple_by != nullptr ? multiple : kind.least_side;
  const auto text = [](int64_t high, int64_t wide) { return std::to_string(high) + " × " + std::to_string(wide); };
  const std::string size = ", not " + text(height, width);
  if (height % multiple != 0 || width % multiple != 0)
    return "the " + kind.name + " needs a " + key + " of multiples of " + std::to_string(multiple) + size;
  if (std::min(height, width) < least)
    return kind.name + " needs a " + key + " of at least " + text(least, least) + size;
  return "";
}

int64_t lower_logits_of(const ModelOptions& options) {
  return options.kind->lower_logits != nullptr ? options.kind->lower_logits(options) : 0;
}

std::string random_key_of(const ModelOptions& options) {
  const char* key = options.kind->random_by != nullptr ? options.kind->random_by(options) : nullptr;
  return key != nullptr ? key : "";
}

std::string per_pixel_networks() {
  return "the " + join_last(names_where(networks(), [](const NetworkKind& kind) { return kind.per_pixel; }), "and");
}

bool speeds_convolutions(const ModelOptions& options) {
  const std::string key = "fast_convolutions";
  return reads(*options.kind, key) && (options.encoder == nullptr || reads(*options.encoder, key));
}

}  // namespace dtrain
