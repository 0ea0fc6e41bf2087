#pragma once
#include <map>
#include <string>

#include "dtrain/config/config.hpp"

namespace dtrain {

/// Throws ConfigError if the configuration `now` is of another task or network than `weights`, a file with this
/// metadata, was trained with, naming the keys that differ and both values. Nothing where the file does not say.
void require_own_network(const std::map<std::string, std::string>& metadata, const std::string& weights,
                         const Config& now);

/// `config`, but where batch.per_rank is auto with the number that the run of `weights`, a file with this metadata, has
/// found. Throws ConfigError for `what` ("dtrain eval") where the file does not say it.
Config with_batch_of_run(const Config& config, const std::map<std::string, std::string>& metadata,
                         const std::string& weights, const std::string& what);

/// How the pictures that a network gets under `now` are prepared otherwise than those that `weights`, a file with this
/// metadata, was trained on: one sentence with each key of data.image that differs and both values. "" where none does,
/// or the file does not say.
std::string other_pictures(const std::map<std::string, std::string>& metadata, const std::string& weights,
                           const Config& now);

}  // namespace dtrain
