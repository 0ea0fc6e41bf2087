#include "dtrain/data/order/group_dealer.hpp"

#include <algorithm>
#include <numeric>

namespace dtrain {

namespace {

constexpr size_t kNoBin = static_cast<size_t>(-1);

// The bin whose share of the interval [0, 1) holds `place`.
size_t bin_at(double place, const std::vector<double>& shares) {
  double end = 0;
  size_t last = 0;
  for (size_t bin = 0; bin < shares.size(); ++bin) {
    if (shares[bin] <= 0) continue;
    end += shares[bin];
    if (place < end) return bin;
    last = bin;
  }
  return last;
}

// The bin that gives a group to `empty`: the one with the most groups, if it keeps one or comes after `empty`.
size_t donor_for(size_t empty, const std::vector<int64_t>& counts) {
  const auto most = static_cast<size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  if (counts[most] > 1 || (counts[most] == 1 && most > empty)) return most;
  return kNoBin;
}

void fill_empty(const std::vector<double>& shares, std::vector<size_t>& bins) {
  std::vector<int64_t> counts(shares.size(), 0);
  for (const size_t bin : bins) ++counts[bin];
  for (size_t empty = 0; empty < shares.size(); ++empty) {
    if (shares[empty] <= 0 || counts[empty] > 0) continue;
    const size_t donor = donor_for(empty, counts);
    if (donor == kNoBin) continue;
    const auto given = donor > empty ? std::find(bins.begin(), bins.end(), donor)
                                     : std::prev(std::find(bins.rbegin(), bins.rend(), donor).base());
    *given = empty;
    --counts[donor];
    ++counts[empty];
  }
}

class Stratifier {
 public:
  Stratifier(const std::vector<SampleGroup>& groups, const std::vector<double>& shares)
      : groups_(groups), shares_(shares), bins_(groups.size(), kNoBin), wanted_(shares.size(), 0) {
    size_t labels = 0;
    for (const SampleGroup& group : groups_)
      for (const auto& [label, count] : group.labels) labels = std::max(labels, static_cast<size_t>(label) + 1);
    holders_.resize(labels);
    left_.assign(labels, 0);
    for (size_t g = 0; g < groups_.size(); ++g) {
      samples_left_ += size_of(g);
      for (const auto& [label, count] : groups_[g].labels) {
        holders_[static_cast<size_t>(label)].emplace_back(count, g);
        left_[static_cast<size_t>(label)] += count;
      }
    }
    for (size_t bin = 0; bin < shares_.size(); ++bin) wanted_[bin] = shares_[bin] * static_cast<double>(samples_left_);
    for (const double share : shares_) {
      wanted_of_.emplace_back();
      for (const int64_t count : left_) wanted_of_.back().push_back(share * static_cast<double>(count));
    }
  }

  std::vector<size_t> run() {
    for (size_t label = rarest(); label != kNoBin; label = rarest()) deal_label(label);
    std::vector<std::pair<int64_t, size_t>> rest;
    for (size_t g = 0; g < groups_.size(); ++g)
      if (bins_[g] == kNoBin) rest.emplace_back(size_of(g), g);
    largest_first(rest);
    for (const auto& [count, g] : rest) give(g, choose(g, static_cast<double>(count), wanted_));
    return std::move(bins_);
  }

 private:
  int64_t size_of(size_t g) const { return static_cast<int64_t>(groups_[g].samples.size()); }

  static void largest_first(std::vector<std::pair<int64_t, size_t>>& groups) {
    std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
  }

  // The rarest label, by samples, among groups without a bin.
  size_t rarest() const {
    size_t found = kNoBin;
    for (size_t label = 0; label < left_.size(); ++label)
      if (left_[label] > 0 && (found == kNoBin || left_[label] < left_[found])) found = label;
    return found;
  }

  void deal_label(size_t label) {
    std::vector<std::pair<int64_t, size_t>> groups;
    for (const auto& [count, g] : holders_[label])
      if (bins_[g] == kNoBin) groups.emplace_back(count, g);
    largest_first(groups);
    std::vector<double> short_of(shares_.size());  // in total after the labels so far, at most half a sample
    for (size_t bin = 0; bin < shares_.size(); ++bin)
      short_of[bin] = std::clamp(wanted_[bin] - shares_[bin] * static_cast<double>(samples_left_), -0.5, 0.5);
    for (const auto& [count, g] : groups) {
      std::vector<double> wanted(shares_.size());
      for (size_t bin = 0; bin < shares_.size(); ++bin) wanted[bin] = wanted_of_[bin][label] + short_of[bin];
      give(g, choose(g, static_cast<double>(count), wanted));
    }
  }

  // The bin at the group's random place if that still wants at least half the group's samples, else the one that wants
  // most.
  size_t choose(size_t g, double count, const std::vector<double>& wanted) const {
    const size_t home = bin_at(groups_[g].place, shares_);
    if (wanted[home] >= count / 2) return home;
    size_t most = home;
    for (size_t bin = 0; bin < shares_.size(); ++bin)
      if (shares_[bin] > 0 && wanted[bin] > wanted[most]) most = bin;
    return most;
  }

  void give(size_t g, size_t bin) {
    bins_[g] = bin;
    samples_left_ -= size_of(g);
    wanted_[bin] -= static_cast<double>(size_of(g));
    for (const auto& [label, count] : groups_[g].labels) {
      wanted_of_[bin][static_cast<size_t>(label)] -= static_cast<double>(count);
      left_[static_cast<size_t>(label)] -= count;
    }
  }

  const std::vector<SampleGroup>& groups_;
  const std::vector<double>& shares_;
  std::vector<size_t> bins_;
  int64_t samples_left_ = 0;                                      // in groups without a bin
  std::vector<double> wanted_;                                    // for each bin: samples it still wants
  std::vector<std::vector<double>> wanted_of_;                    // for each bin: the same for each label
  std::vector<std::vector<std::pair<int64_t, size_t>>> holders_;  // for each label: (samples with it, group)
  std::vector<int64_t> left_;                                     // for each label: its samples in groups without a bin
};

}  // namespace

std::vector<size_t> deal_by_place(const std::vector<SampleGroup>& groups, const std::vector<double>& shares) {
  std::vector<size_t> bins;
  for (const SampleGroup& group : groups) bins.push_back(bin_at(group.place, shares));
  fill_empty(shares, bins);
  return bins;
}

std::vector<size_t> deal_stratified(const std::vector<SampleGroup>& groups, const std::vector<double>& shares) {
  std::vector<size_t> bins = Stratifier(groups, shares).run();
  fill_empty(shares, bins);
  return bins;
}

}  // namespace dtrain
