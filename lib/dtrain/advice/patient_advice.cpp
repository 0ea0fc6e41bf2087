#include "dtrain/advice/patient_advice.hpp"

#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

std::vector<Finding> patient_advice(const PatientFacts& facts) {
  if (!facts.unused.empty())
    return {
        {weight::kWrong - 5, "patients_unused",
         "the column '" + facts.unused + "' of the label file is not used: if it identifies patients, " +
             shell_word(facts.group_key + "=\"" + facts.unused + "\"") +
             (facts.by_share && !facts.by_patient ? " data.split.by=patient keeps each in one part, and" : " makes") +
             " intervals hold for them"}};
  if (!facts.by_share || facts.by_patient || facts.in_two_parts > 0 || facts.samples <= facts.patients) return {};
  return {{weight::kWrong - 5, "split_by_sample",
           "the data identify patients (" + with_commas(facts.patients) + " of " + count_of(facts.samples, "sample") +
               "), but data.split may spread one over several parts; it is chance that this did not happen, and "
               "another seed or more data may change it: data.split.by=patient keeps each in one part"}};
}

}  // namespace dtrain
