#include <algorithm>

#include "dtrain/base/text.hpp"
#include "dtrain/model/options.hpp"

namespace dtrain {

// Each is defined in its own file.
extern const NetworkKind kDenseNet121, kDenseNet169, kDenseNet201, kResNet18, kResNet34, kResNet50, kUNet, kSmallCnn;

const RowList<NetworkKind>& networks() {
  static const RowList<NetworkKind> all = {&kDenseNet121, &kDenseNet169, &kDenseNet201, &kResNet18,
                                           &kResNet34,    &kResNet50,    &kUNet,        &kSmallCnn};
  return all;
}

std::string wrong_size(const NetworkKind& kind, int64_t height, int64_t width, const std::string& key) {
  const auto text = [](int64_t high, int64_t wide) { return std::to_string(high) + " × " + std::to_string(wide); };
  const std::string size = ", not " + text(height, width);
  if (height % kind.side_multiple != 0 || width % kind.side_multiple != 0)
    return "the " + kind.name + " needs a " + key + " of multiples of " + std::to_string(kind.side_multiple) + size;
  if (std::min(height, width) < kind.least_side)
    return kind.name + " needs a " + key + " of at least " + text(kind.least_side, kind.least_side) + size;
  return "";
}

std::string random_key_of(const ModelOptions& options) {
  const char* key = options.kind->random_by != nullptr ? options.kind->random_by(options) : nullptr;
  return key != nullptr ? key : "";
}

std::string per_pixel_networks() {
  return "the " + join_last(names_where(networks(), [](const NetworkKind& kind) { return kind.per_pixel; }), "and");
}

}  // namespace dtrain
