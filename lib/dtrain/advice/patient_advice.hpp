#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/advice/finding.hpp"

namespace dtrain {

/// Patients, or other groups, that the data tell, and whether the split knows of them.
struct PatientFacts {
  int64_t patients = 0;      ///< 0: the data tell none
  int64_t samples = 0;       ///< of these
  bool by_share = true;      ///< parts are shares or folds of the data, dealt by this program
  bool by_patient = false;   ///< data.split.by: patient
  std::string unused{};      ///< a column of the label file that is called like patients' and that nobody reads
  std::string group_key{};   ///< the configuration's key that would name it
  int64_t in_two_parts = 0;  ///< patients of whom some samples fell into another part: told as a leak
};

/// Patients with several samples each, which a split by sample parts as chance will have it; patients that a table may
/// tell and that neither split nor intervals know.
std::vector<Finding> patient_advice(const PatientFacts& facts);

}  // namespace dtrain
