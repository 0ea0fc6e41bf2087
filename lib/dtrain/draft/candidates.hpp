#pragma once
#include <string>
#include <vector>

#include "dtrain/data/order/split.hpp"
#include "dtrain/data/reading.hpp"
#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// A reading of the folder that opens, and what else its question may have for an answer.
struct Candidate {
  Reading reading;  ///< the likeliest of its family that opens
  Dataset dataset;
  Split split;
  std::vector<Reading> instead;  ///< others of the family that open, the likeliest first
  bool asked = false;            ///< only a person can choose between `reading` and `instead`
};

/// A reading that does not open, and the sentence that says why.
struct Refusal {
  Reading reading;
  std::string sentence;
};

struct Candidates {
  std::vector<Candidate> open;    ///< one per family, the likeliest first
  std::vector<Refusal> refusals;  ///< the likeliest first
};

/// Opens every reading as training would, and sorts them out. Of several formats that read one table the likeliest
/// alone is tried further. Throws nothing for what is wrong with the data: those are refusals.
Candidates try_readings(const FolderLook& look);

/// Opens `reading` and splits it. Throws as open_dataset() and split_dataset(), and ConfigError for classes too few to
/// tell apart.
Candidate open_reading(Reading reading);

}  // namespace dtrain
