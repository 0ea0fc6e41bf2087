#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/optim/options.hpp"

namespace dtrain {

/// What an optimizer does with one parameter of a network.
struct ParameterRule {
  double rate = 1;          ///< factor of the learning rate
  double weight_decay = 0;  ///< as OptimizerOptions::weight_decay
  bool frozen = false;      ///< keeps its values, and needs no gradient

  bool operator==(const ParameterRule&) const = default;
};

/// Of each of the parameters, whose names and numbers of dimensions are given in the same order: by the first group
/// that it matches, else by the options alone. Without decay_norms weight decay leaves those of one dimension alone:
/// biases, and the scales and shifts of normalisation. Throws ConfigError for a group that no parameter is left for,
/// naming parameters with similar names, and where every parameter is frozen.
std::vector<ParameterRule> parameter_rules(const OptimizerOptions& options, const std::vector<std::string>& names,
                                           const std::vector<int64_t>& dimensions);

/// Whether `pattern` describes the whole of `name`: `*` stands for any characters, none included, `?` for one.
bool matches(const std::string& pattern, const std::string& name);

}  // namespace dtrain
