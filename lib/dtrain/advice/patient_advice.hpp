#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/advice/finding.hpp"

namespace dtrain {

/// Patients, or other groups, in the data, and whether the split respects them.
struct PatientFacts {
  int64_t patients = 0;      ///< 0: the data identify none
  int64_t samples = 0;       ///< of these
  bool by_share = true;      ///< parts are shares or folds of the data, made by this program
  bool by_patient = false;   ///< data.split.by: patient
  std::string unused{};      ///< a column of the label file that looks like patients and that nothing reads
  std::string group_key{};   ///< the configuration's key that would name it
  int64_t in_two_parts = 0;  ///< patients with samples in more than one part: reported as a leak
};

/// Patients with several samples each, which a split by sample separates at random; patients that a table may have and
/// that neither split nor intervals use.
std::vector<Finding> patient_advice(const PatientFacts& facts);

}  // namespace dtrain
