#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/config/experiment.hpp"
#include "dtrain/data/order/sampler.hpp"
#include "dtrain/data/order/split.hpp"
#include "dtrain/data/store/dataset.hpp"
#include "dtrain/model/network.hpp"

namespace dtrain {

/// What a configuration means once its data have been read: the same on every rank.
struct Plan {
  Dataset dataset;
  Split split;
  NetworkShape shape;
  int64_t logical_ranks = 1;         ///< V
  int64_t local_batch = 1;           ///< largest batch of a logical rank, and the batch of evaluation
  std::vector<std::string> outputs;  ///< names of the network's outputs
};

/// Opens the data set, splits it, and checks configuration against data: outputs against classes, ranks against V.
/// Throws ConfigError, DataError, MissingError.
Plan make_plan(const Experiment& experiment, int64_t logical_ranks);

/// Throws ConfigError if data.augment mixes the pictures of a batch and full batches have one picture.
void require_partners(const Experiment& experiment, const Plan& plan);

/// Throws ConfigError when there are more processes than logical ranks.
void require_ranks_fit(int ranks, int64_t logical_ranks);

/// The order in which the training part is taken in an epoch, from 0.
EpochPlan planned_epoch(const Experiment& experiment, const Plan& plan, int64_t epoch);

/// Indices into Dataset::samples of one part.
const std::vector<int64_t>& part_of_split(const Split& split, const std::string& part);

/// Segmentation: throws DataError when no training mask holds any class, naming the pixel values that occur.
void require_foreground(const Experiment& experiment, const Plan& plan);

}  // namespace dtrain
