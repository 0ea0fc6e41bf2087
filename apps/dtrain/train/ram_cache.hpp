#pragma once
#include <memory>
#include <string>

#include "dtrain/data/batches/shared_pictures.hpp"
#include "job/job.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// The outcome of data.loader.cache: ram.
struct RamCache {
  std::unique_ptr<SharedPictures> pictures;  ///< null: there is no cache
  std::string line;                          ///< for the banner
  std::string note;                          ///< why there is none; ""
};

/// One memory for the ranks of each host. All ranks call it together; if a host has too little memory, or its ranks
/// cannot reach each other's, none of them has a cache, and the note, the same on all, says why. Throws CommError.
RamCache make_ram_cache(const Experiment& experiment, const Plan& plan, Job& job);

}  // namespace dtrain
