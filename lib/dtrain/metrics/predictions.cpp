#include "dtrain/metrics/predictions.hpp"

#include "dtrain/base/error.hpp"

namespace dtrain {

// `each` values of every sample; an empty table stays empty.
template <typename Value>
static std::vector<Value> taken(const std::vector<Value>& table, size_t each, std::span<const size_t> rows) {
  std::vector<Value> some;
  if (table.empty()) return some;
  some.reserve(rows.size() * each);
  for (const size_t row : rows) {
    const auto first = table.begin() + static_cast<std::ptrdiff_t>(row * each);
    some.insert(some.end(), first, first + static_cast<std::ptrdiff_t>(each));
  }
  return some;
}

Predictions rows_of(const Predictions& all, std::span<const size_t> rows) {
  for (const size_t row : rows) check(row < all.samples(), "a row of the predictions");
  return {.task = all.task,
          .outputs = all.outputs,
          .loss = taken(all.loss, 1, rows),
          .logits = taken(all.logits, all.outputs, rows),
          .scores = taken(all.scores, all.outputs, rows),
          .labels = taken(all.labels, all.outputs, rows),
          .pixels = taken(all.pixels, all.outputs, rows),
          .distances = taken(all.distances, all.outputs, rows),
          .thresholds = all.thresholds};
}

}  // namespace dtrain
