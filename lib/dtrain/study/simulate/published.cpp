#include "dtrain/study/simulate/published.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace dtrain {
namespace {

// 0 to 4 % in quarters of a percent.
constexpr int kSpreads = 17;
constexpr double kSpreadStep = 0.0025;
constexpr std::array kShares = {1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1};

using Series = std::vector<const PublishedSeries*>;
/// Summed absolute errors of a series, by spread and share of links.
using ErrorGrid = std::array<std::array<double, kShares.size()>, kSpreads>;

bool shares_its_fabric(const PublishedSeries& series) {
  int64_t count = 0;
  for (const PublishedSeries& other : published_series())
    count += other.apart.empty() && other.fabric == series.fabric ? 1 : 0;
  return count > 1;
}

Series counted_without(const std::function<bool(const PublishedSeries&)>& left_out) {
  Series series;
  for (const PublishedSeries& one : published_series())
    if (one.apart.empty() && !left_out(one)) series.push_back(&one);
  return series;
}

// 1 ÷ efficiency is a line in the spread: so few points need to be simulated.
ErrorGrid error_grid(const PublishedSeries& series) {
  ErrorGrid grid{};
  for (const PublishedSeries::Point& point : series.points)
    for (size_t share = 0; share < kShares.size(); ++share) {
      const double at_none = 1 / predicted_efficiency(series, {0, kShares[share], {}}, point.ranks);
      const double at_one = 1 / predicted_efficiency(series, {1, kShares[share], {}}, point.ranks);
      for (int spread = 0; spread < kSpreads; ++spread)
        grid[static_cast<size_t>(spread)][share] +=
            std::abs(1 / (at_none + kSpreadStep * spread * (at_one - at_none)) - point.efficiency);
    }
  return grid;
}

const ErrorGrid& errors_of(const PublishedSeries* series) {
  static const std::map<const PublishedSeries*, ErrorGrid> all = [] {
    std::map<const PublishedSeries*, ErrorGrid> grids;
    for (const PublishedSeries* one : counted_without([](const PublishedSeries&) { return false; }))
      grids[one] = error_grid(*one);
    return grids;
  }();
  return all.at(series);
}

// The share with the least error, the largest of equals, and that error.
std::pair<double, double> best_share(const Series& series, size_t spread) {
  std::pair<double, double> best{1, std::numeric_limits<double>::infinity()};
  for (size_t share = 0; share < kShares.size(); ++share) {
    double sum = 0;
    for (const PublishedSeries* one : series) sum += errors_of(one)[spread][share];
    if (sum < best.second - 1e-12) best = {kShares[share], sum};
  }
  return best;
}

double mean_error(const std::vector<PublishedError>& errors) {
  double sum = 0;
  for (const PublishedError& error : errors) sum += std::abs(error.points());
  return errors.empty() ? 0 : sum / static_cast<double>(errors.size());
}

void add_errors(const PublishedSeries& series, const ModelFit& fit, std::vector<PublishedError>& errors) {
  for (const PublishedSeries::Point& point : series.points)
    errors.push_back({&series, point, predicted_efficiency(series, fit, point.ranks)});
}

}  // namespace

double ModelFit::share_of(const std::string& fabric) const {
  const auto own = fabric_share.find(fabric);
  return own == fabric_share.end() ? link_share : own->second;
}

double predicted_efficiency(const PublishedSeries& series, const ModelFit& fit, int64_t ranks) {
  Workload workload;
  workload.compute_s = series.batch / series.images_per_s;
  workload.compute_sd_s = fit.spread * workload.compute_s;
  workload.gradient_bytes = 4e6 * series.parameters;
  workload.bucket_bytes = 1e6 * series.bucket_mb;
  workload.batch = series.batch;
  Cluster cluster = series.cluster;
  cluster.inside.bytes_per_s *= fit.share_of(series.fabric);
  cluster.between.bytes_per_s *= fit.share_of(series.fabric);
  return workload.compute_s / step_time(workload, cluster, SumWay::ring, ranks, ranks).seconds();
}

ModelFit fit_published(const std::vector<const PublishedSeries*>& series) {
  Series alone;  // on their fabric
  std::map<std::string, Series> together;
  for (const PublishedSeries* one : series) {
    if (shares_its_fabric(*one))
      together[one->fabric].push_back(one);
    else
      alone.push_back(one);
  }
  ModelFit best;
  double least = std::numeric_limits<double>::infinity();
  for (size_t spread = 0; spread < kSpreads; ++spread) {
    ModelFit fit{kSpreadStep * static_cast<double>(spread), best_share(series, spread).first, {}};
    const auto global =
        static_cast<size_t>(std::find(kShares.begin(), kShares.end(), fit.link_share) - kShares.begin());
    double sum = 0;
    for (const PublishedSeries* one : alone) sum += errors_of(one)[spread][global];
    for (const auto& [fabric, its] : together) {
      const auto [share, error] = best_share(its, spread);
      fit.fabric_share[fabric] = share;
      sum += error;
    }
    if (sum < least - 1e-12) {
      least = sum;
      best = fit;
    }
  }
  return best;
}

const PublishedErrors& published_errors() {
  static const PublishedErrors all = [] {
    PublishedErrors errors;
    std::vector<PublishedError> by_source;
    errors.fit = fit_published(counted_without([](const PublishedSeries&) { return false; }));
    for (const PublishedSeries& series : published_series()) {
      if (!series.apart.empty()) {
        add_errors(series, errors.fit, errors.apart);
        continue;
      }
      const auto itself = [&](const PublishedSeries& other) { return &other == &series; };
      add_errors(series, fit_published(counted_without(itself)), errors.counted);
      const auto its_source = [&](const PublishedSeries& other) { return other.source == series.source; };
      add_errors(series, fit_published(counted_without(its_source)), by_source);
    }
    errors.mean_points = mean_error(errors.counted);
    errors.mean_points_by_source = mean_error(by_source);
    return errors;
  }();
  return all;
}

}  // namespace dtrain
