#pragma once
#include <cstdint>
#include <vector>

namespace dtrain {

/// How far above their mean the largest of n independent normal values is to be expected, in standard deviations: 0 of
/// one, 0.564 of two, 1.42 of eight, 4.5 of 65,536. By Simpson's rule over the distribution of the maximum (David and
/// Nagaraja, Order Statistics, 2003); right to 1e-6. n >= 1.
double expected_maximum(int64_t n);

/// The standard deviation of times, from their median and their 95th percentile, as of a normal distribution: a pause
/// of the machine in one step of a hundred does not change it. 0 for fewer than two values.
double robust_deviation(std::vector<double> values);

/// Percentile `share` (0…1) of values in ascending order: the value at index ⌊n·share⌋. Not empty.
double percentile_of(const std::vector<double>& ascending, double share);

}  // namespace dtrain
