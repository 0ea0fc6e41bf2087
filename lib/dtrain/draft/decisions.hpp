#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/config/experiment.hpp"
#include "dtrain/draft/candidates.hpp"
#include "dtrain/draft/draft.hpp"
#include "dtrain/draft/survey.hpp"

namespace dtrain {

/// A key of a drafted configuration, or a group of keys ("data.split"), with why it has its value.
struct DraftLine {
  std::string key;
  std::string why;        ///< for people, "" for nothing
  bool off = false;       ///< a comment, for people to uncomment
  std::string text = "";  ///< as YAML writes the value; "": what the experiment has
};

/// A configuration, and what is to be said about it.
struct Drafted {
  Experiment experiment;
  std::vector<DraftLine> lines;       ///< several `off` ones may share a key: one of them is to be uncommented
  std::vector<DraftNote> to_fill_in;  ///< what only a person can know
  std::vector<DraftNote> choices;     ///< what could be otherwise
};

/// Chooses task, network, picture size, channels, range, masks' values, split, batch and epochs for a data set, each
/// from figures of it.
Drafted decide(Candidate candidate, const Survey& survey);

/// What is known of pictures without labels: their size, channels and range.
void decide_pictures(const Survey& survey, Task task, Drafted& drafted);
/// The masks' values, batch and epochs for a training part of so many samples, once decide_pictures() has chosen.
void decide_training(const Survey& survey, Task task, int64_t samples, Drafted& drafted);

/// "12 %", "1.5 %"
std::string percent_text(int64_t part, int64_t all);

}  // namespace dtrain
