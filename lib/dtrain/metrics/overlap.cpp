#include "dtrain/metrics/overlap.hpp"

namespace dtrain {

double overlap(PixelShare share, const PixelCounts& counts) {
  const GroupShare ratio = share(counts);
  return ratio.whole == 0 ? 1.0 : ratio.part / ratio.whole;
}

std::vector<std::vector<GroupShare>> pixel_shares(const Predictions& p, const Groups& groups, PixelShare share) {
  std::vector<std::vector<GroupShare>> classes;
  for (size_t k = 0; k < p.outputs; ++k)
    classes.push_back(shares_of(groups, [&](size_t i) { return share(p.counts(i, k)); }));
  return classes;
}

MetricValues overlaps_of(const Predictions& p, bool each_class, const Groups* groups, PixelShare share) {
  std::vector<Measured> classes(p.outputs);
  double sum = 0;
  for (size_t k = 0; k < p.outputs; ++k) {
    PixelCounts counts;
    for (size_t i = 0; i < p.samples(); ++i) counts += p.counts(i, k);
    classes[k].value = overlap(share, counts);
    sum += *classes[k].value;
  }
  MetricValues values;
  values.all.value = sum / static_cast<double>(p.outputs);
  if (groups != nullptr) {
    const std::vector<std::vector<GroupShare>> shares = pixel_shares(p, *groups, share);
    values.all.confidence = share_confidence(*values.all.value, shares, groups->noun);
    for (size_t k = 0; each_class && k < p.outputs; ++k)
      classes[k].confidence = share_confidence(*classes[k].value, {&shares[k], 1}, groups->noun);
  }
  if (each_class) values.classes = std::move(classes);
  return values;
}

}  // namespace dtrain
