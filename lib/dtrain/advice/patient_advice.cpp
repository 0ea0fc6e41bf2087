#include "dtrain/advice/patient_advice.hpp"

#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

std::vector<Finding> patient_advice(const PatientFacts& facts) {
  if (!facts.unused.empty())
    return {{weight::kWrong - 5, "patients_unused",
             "the column '" + facts.unused + "' of the label file is not used: where it tells patients, " +
                 shell_word(facts.group_key + "=\"" + facts.unused + "\"") +
                 (facts.by_share && !facts.by_patient ? " data.split.by=patient keeps them whole, and" : " makes") +
                 " intervals hold for them"}};
  if (!facts.by_share || facts.by_patient || facts.in_two_parts > 0 || facts.samples <= facts.patients) return {};
  return {
      {weight::kWrong - 5, "split_by_sample",
       "the data tell patients (" + with_commas(facts.patients) + " of " + count_of(facts.samples, "sample") +
           "), and data.split does not keep them whole; that none fell into two parts is chance, which another seed "
           "or more data end: data.split.by=patient keeps them whole"}};
}

}  // namespace dtrain
