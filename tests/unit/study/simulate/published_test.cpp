#include "dtrain/study/simulate/published.hpp"

#include <cmath>
#include <set>

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("26 published points count, and the model is off by less than 3 points without having seen their series") {
  const PublishedErrors& errors = published_errors();
  REQUIRE(errors.counted.size() == 26);
  double sum = 0;
  for (const PublishedError& error : errors.counted) {
    CHECK(error.series->apart.empty());
    sum += std::abs(error.points());
  }
  CHECK(errors.mean_points == Approx(sum / 26));
  CHECK(errors.mean_points == Approx(2.46).margin(0.01));
  CHECK(errors.mean_points_by_source == Approx(4.31).margin(0.01));
  CHECK(errors.fit.spread == Approx(0.02));
  CHECK(errors.fit.link_share == Approx(0.9));
}

TEST_CASE("a point is predicted without its series") {
  for (const PublishedSeries& series : published_series()) {
    if (!series.apart.empty()) continue;
    std::vector<const PublishedSeries*> others;
    for (const PublishedSeries& other : published_series())
      if (other.apart.empty() && &other != &series) others.push_back(&other);
    const ModelFit fit = fit_published(others);
    for (const PublishedError& error : published_errors().counted)
      if (error.series == &series)
        CHECK(error.predicted == Approx(predicted_efficiency(series, fit, error.point.ranks)));
  }
}

TEST_CASE("every published series has a source, figures that can be, and efficiency 1 at one rank") {
  std::set<std::string> sources;
  for (const PublishedSeries& series : published_series()) {
    INFO(series.name);
    sources.insert(series.source);
    CHECK(series.images_per_s > 0);
    CHECK(series.batch > 0);
    CHECK(series.parameters > 0);
    CHECK(predicted_efficiency(series, published_errors().fit, 1) == 1);
    for (const PublishedSeries::Point& point : series.points) {
      CHECK(point.ranks > 1);
      CHECK(point.efficiency <= 1);
      CHECK(point.efficiency > 0.5);
    }
  }
  CHECK(sources.size() >= 8);
}
