#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dtrain/study/simulate/step_model.hpp"

namespace dtrain {

/// Measurements of training on several GPUs that others have published: one network on one machine.
struct PublishedSeries {
  struct Point {
    int64_t ranks = 1;
    double efficiency = 1;  ///< images/s at N ÷ (N × images/s at 1)
  };
  std::string name;
  std::string source;       ///< where the figures stand
  std::string fabric;       ///< series of one fabric have one machine and one way of sums
  double images_per_s = 0;  ///< of one GPU
  double batch = 0;         ///< of a GPU
  double parameters = 0;    ///< millions; each is a gradient of 4 bytes
  double bucket_mb = 0;     ///< in which the framework sums
  Cluster cluster = {};     ///< links as their data sheets have them
  std::vector<Point> points = {};
  std::string apart = "";  ///< why the points are shown, but neither fitted nor counted; "" = they count
};
/// 26 points that count, in 16 series, and some that stand apart.
const std::vector<PublishedSeries>& published_series();

/// What a data sheet and a single GPU do not tell.
struct ModelFit {
  double spread = 0;      ///< of the time of a step, over ranks and steps: standard deviation ÷ mean
  double link_share = 1;  ///< of a link's rate that sums reach
  std::map<std::string, double> fabric_share;  ///< the same of fabrics that have more than one series

  double share_of(const std::string& fabric) const;
};
/// The fit with the least mean error over all points of `series`, on a grid: members of published_series() that count.
ModelFit fit_published(const std::vector<const PublishedSeries*>& series);

/// step_time() with ring sums, against the same with one rank.
double predicted_efficiency(const PublishedSeries& series, const ModelFit& fit, int64_t ranks);

struct PublishedError {
  const PublishedSeries* series = nullptr;
  PublishedSeries::Point point;
  double predicted = 1;
  double points() const { return 100 * (predicted - point.efficiency); }
};
/// The model against what others have measured.
struct PublishedErrors {
  std::vector<PublishedError> counted;  ///< each predicted by a fit on all other series that count
  std::vector<PublishedError> apart;    ///< by the fit on all series that count
  double mean_points = 0;               ///< mean absolute error of `counted`, in percentage points of efficiency
  double mean_points_by_source = 0;     ///< the same where the fit leaves out all series of the point's source
  ModelFit fit;                         ///< on all series that count
};
/// Of a series itself a prediction knows network, batch, rate of one GPU and data sheet; its points at N > 1 are left
/// out. Computed once.
const PublishedErrors& published_errors();

}  // namespace dtrain
