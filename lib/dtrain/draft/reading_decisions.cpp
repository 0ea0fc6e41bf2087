// What follows from the reading itself: its keys, what it asks, classes, and the split.
#include <algorithm>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/draft/decisions.hpp"
#include "dtrain/draft/draft_text.hpp"

namespace dtrain {

namespace {

// --- labels

// Samples of each class: of that class, or with that label.
std::vector<int64_t> positives_of(const Dataset& dataset) {
  std::vector<int64_t> counts(dataset.classes.size(), 0);
  for (const Sample& sample : dataset.samples) {
    if (sample.class_index >= 0) ++counts[static_cast<size_t>(sample.class_index)];
    for (size_t k = 0; k < sample.labels.size(); ++k) counts[k] += sample.labels[k] == 1 ? 1 : 0;
  }
  return counts;
}

std::string counted_classes(const Dataset& dataset, const std::vector<int64_t>& counts) {
  constexpr size_t kShown = 8;
  std::vector<std::string> words;
  for (size_t k = 0; k < std::min(counts.size(), kShown); ++k)
    words.push_back(dataset.classes[k] + " " + with_commas(counts[k]));
  return join(words, ", ") + (counts.size() > kShown ? " …" : "");
}

void decide_labels(const Candidate& candidate, Drafted& out) {
  const Dataset& dataset = candidate.dataset;
  if (dataset.task == Task::segmentation) return out.lines.push_back({"task", "each pixel gets a class"});
  const std::vector<int64_t> counts = positives_of(dataset);
  const std::string kinds = count_of(static_cast<int64_t>(counts.size()), "class", "classes");
  const bool several = dataset.task == Task::multilabel;
  const std::string what =
      several ? count_of(static_cast<int64_t>(counts.size()), "label") + ", any number of them per picture"
              : kinds + ", one per picture";
  out.lines.push_back(
      {"task", candidate.asked ? what.substr(what.find(", ") + 2) : what + ": " + counted_classes(dataset, counts)});
  if (candidate.asked) return;
  const auto all = static_cast<int64_t>(dataset.samples.size());
  int64_t least = all;
  for (const int64_t count : counts)
    if (count > 0) least = std::min(least, count);
  constexpr int64_t kRare = 20;  // one in so many
  std::vector<std::string> present;
  std::vector<std::string> absent;
  for (size_t k = 0; k < counts.size(); ++k) (counts[k] > 0 ? present : absent).push_back(dataset.classes[k]);
  if (!absent.empty() && present.size() >= 2 && candidate.reading.options.classes.empty()) {
    Experiment with = out.experiment;
    with.data.classes = std::move(present);
    out.lines.push_back({"data.classes", "without " + join(absent, ", ") + ", which no picture has", true,
                         text_of_key(with, "data.classes")});
  }
  if (several && kRare * least < all)
    out.lines.push_back(
        {"loss.pos_weight", "rare labels weigh more; the rarest is in " + percent_text(least, all), true, "balanced"});
}

// --- split

struct Patients {
  int64_t patients = 0;
  int64_t pictures = 0;  // that tell their patient
};

Patients patients_of(const Dataset& dataset) {
  std::set<std::string> groups;
  Patients found;
  for (const Sample& sample : dataset.samples)
    if (tells_patient(dataset, sample)) {
      groups.insert(sample.group);
      ++found.pictures;
    }
  found.patients = static_cast<int64_t>(groups.size());
  return found;
}

bool leaks(const Split& split) {
  return std::any_of(split.warnings.begin(), split.warnings.end(),
                     [](const std::string& warning) { return shown(warning).starts_with("split leak"); });
}

void shares(const Candidate& candidate, const Patients& patients, SplitOptions& split) {
  const auto samples = static_cast<int64_t>(candidate.dataset.samples.size());
  constexpr int64_t kWithTest = 300;
  constexpr int64_t kFewest = 100;
  split.given = true;
  split.valid = samples < kFewest ? 0.2 : 0.15;
  split.test = samples >= kWithTest ? 0.15 : 0;
  split.stratify = true;
  if (patients.patients > 1 && patients.patients < patients.pictures) split.by = SplitOptions::By::patient;
}

// Gives up exact shares, then the test part, before it tears patients apart. False if it had to.
bool split_whole(Candidate& candidate, SplitOptions& split) {
  const double test = split.test;
  for (const auto& [stratify, of_test] : {std::pair{true, test}, {false, test}, {true, 0.0}, {false, 0.0}}) {
    split.stratify = stratify;
    split.test = of_test;
    try {
      candidate.split = split_dataset(candidate.dataset, split);
      if (!leaks(candidate.split)) return true;
    } catch (const Error&) {  // a part or a class would be empty
    }
  }
  split.stratify = false;
  split.test = test;
  split.by = SplitOptions::By::sample;
  candidate.split = split_dataset(candidate.dataset, split);
  return !leaks(candidate.split);
}

// Parts that a column names stand against every share, so the draft cannot read the column.
void leave_the_column_out(Candidate& candidate, Drafted& out) {
  std::vector<std::string> gone = keys_that_differ(out.experiment.data);
  forget_part_column(out.experiment.data);
  candidate.dataset = open_dataset(out.experiment.data, candidate.dataset.task, 0);
  for (const std::string& kept : keys_that_differ(out.experiment.data)) std::erase(gone, kept);
  std::erase_if(out.lines, [&](const DraftLine& line) { return std::count(gone.begin(), gone.end(), line.key) > 0; });
}

// Shares where the data name no parts, or parts that tear patients apart.
void decide_split(Candidate& candidate, Drafted& out) {
  const Dataset& dataset = candidate.dataset;
  SplitOptions& split = out.experiment.data.split;
  const bool own = dataset.own_parts.by != OwnParts::By::nothing;
  const bool torn = own && leaks(candidate.split);
  if (split.given && !candidate.reading.decides.empty()) return;  // its own line says so
  if (!split.files.empty() || (own && !torn)) return;
  const Patients patients = patients_of(dataset);
  const std::string parts = dataset.own_parts.what;
  const bool one = dataset.own_parts.one;
  const bool of_column = dataset.own_parts.by == OwnParts::By::column;
  if (torn && of_column) leave_the_column_out(candidate, out);
  shares(candidate, patients, split);
  // Of folders train/ and test/ a share for validation alone would leave the test folder as it is.
  if (torn && !of_column) split.test = std::max(split.test, split.valid);
  if (!split_whole(candidate, split))
    out.to_fill_in.push_back({"data.split: the pictures are of " + count_of(patients.patients, "patient") +
                                  ", too few for parts that share none; add others, or, if these are no patients, "
                                  "leave out the key that names them",
                              "data.split"});
  std::string why = torn ? parts + " " + (one ? "tears" : "tear") + " patients apart, so a new split of all pictures"
                         : "the data name no parts";
  out.lines.push_back(
      {"data.split.valid", why + ": " + with_commas(static_cast<int64_t>(candidate.split.train.size())) + " train, " +
                               with_commas(static_cast<int64_t>(candidate.split.valid.size())) + " valid, " +
                               with_commas(static_cast<int64_t>(candidate.split.test.size())) + " test"});
  if (torn)
    out.choices.push_back({"the parts of " + parts + " share patients; the draft splits all pictures again" +
                               (of_column ? ", and leaves the column out" : ""),
                           "data.split"});
  if (split.test > 0) out.lines.push_back({"data.split.test", "for the last word, after all choices"});
  if (split.by == SplitOptions::By::patient) {
    const std::string guess = dataset.format->guesses_groups ? ", by file names up to the first _ or ." : "";
    out.lines.push_back({"data.split.by", with_commas(patients.pictures) + " pictures of " +
                                              count_of(patients.patients, "patient") + guess + ": each stays whole"});
    if (dataset.format->guesses_groups)
      out.choices.push_back(
          {"the names of files are taken to begin with a patient's number; if not, leave data.split.by out",
           "data.split.by"});
  }
  if (split.stratify) out.lines.push_back({"data.split.stratify", "exact shares"});
}

// --- what the reading itself sets

void describe_reading(const Candidate& candidate, Drafted& out) {
  const Reading& reading = candidate.reading;
  out.experiment.data = reading.options;
  out.experiment.task = candidate.dataset.task;
  const std::map<std::string, std::string>& why = reading.why;
  const auto reason = [&](const std::string& key) { return why.contains(key) ? why.at(key) : std::string(); };
  std::string parts;
  if (candidate.dataset.own_parts.by == OwnParts::By::folders && !reading.options.split.given &&
      !leaks(candidate.split)) {
    const Split& split = candidate.split;
    parts = candidate.dataset.own_parts.what +
            " are the parts: " + with_commas(static_cast<int64_t>(split.train.size())) + " train, " +
            with_commas(static_cast<int64_t>(split.valid.size())) + " valid, " +
            with_commas(static_cast<int64_t>(split.test.size())) + " test";
  }
  const std::string of_root = reason("data.root");
  out.lines.push_back({"data.format", reason("data.format").empty() ? reading.sees : reason("data.format")});
  out.lines.push_back({"data.root", of_root + (of_root.empty() || parts.empty() ? "" : "; ") + parts});
  for (const std::string& key : keys_that_differ(reading.options)) {
    const bool decided = std::any_of(reading.decides.begin(), reading.decides.end(),
                                     [&](const std::string& one) { return key == one || key.starts_with(one + "."); });
    if (key == "data.format" || key == "data.root" || (decided && candidate.asked)) continue;
    if (key == "data.allow_links") {
      out.to_fill_in.push_back({key + ": " + reason(key), key});
      out.lines.push_back({key, reason(key), true, "true"});
      continue;
    }
    out.lines.push_back({key, reason(key)});
  }
  if (reading.decides == std::vector<std::string>{"data.split"} && !candidate.asked)
    for (DraftLine& line : out.lines)
      if (line.key.starts_with("data.split.")) {
        line.why = reason("data.split");
        break;
      }
}

void ask(const Candidate& candidate, Drafted& out) {
  const auto what_it_lacks = [&](const Reading& other) {
    std::string text;
    for (const std::string& key : candidate.reading.decides)
      if (std::count(other.decides.begin(), other.decides.end(), key) == 0)
        text += " without " + key.substr(key.rfind('.') + 1);
    return text.empty() ? "" : "," + text;
  };
  const auto lines_of_reading = [&](const Reading& reading, const std::string& before) {
    for (const std::string& key : reading.decides) {
      Experiment with = out.experiment;
      with.data = reading.options;
      const std::string text = text_of_group(with, key);
      if (text.empty()) continue;
      const auto why = reading.why.find(key);
      out.lines.push_back({key, before + (why == reading.why.end() ? "" : why->second), true, text});
    }
  };
  if (candidate.asked) {
    std::set<std::string> keys(candidate.reading.decides.begin(), candidate.reading.decides.end());
    for (const Reading& other : candidate.instead) keys.insert(other.decides.begin(), other.decides.end());
    out.to_fill_in.push_back(
        {candidate.reading.question + ": uncomment one of the lines of " + join_last({keys.begin(), keys.end()}, "or"),
         keys.empty() ? "" : *keys.begin()});
    lines_of_reading(candidate.reading, "");
  } else if (candidate.reading.trust != Reading::Trust::certain && !candidate.reading.decides.empty()) {
    const auto why = candidate.reading.why.find(candidate.reading.decides.front());
    out.choices.push_back({"an assumption about " + candidate.reading.question +
                               (why == candidate.reading.why.end() ? "" : ": " + why->second),
                           candidate.reading.decides.front()});
  } else if (!candidate.instead.empty()) {
    out.choices.push_back({candidate.reading.question + ": other answers stand beside as comments",
                           candidate.reading.decides.empty() ? "" : candidate.reading.decides.front()});
  }
  constexpr size_t kMost = 4;
  for (size_t i = 0; i < std::min(candidate.instead.size(), candidate.asked ? size_t{8} : kMost); ++i)
    lines_of_reading(candidate.instead[i], candidate.asked ? "" : "or" + what_it_lacks(candidate.instead[i]) + ": ");
}

}  // namespace

Drafted decide(Candidate candidate, const Survey& survey) {
  Drafted out;
  describe_reading(candidate, out);
  ask(candidate, out);
  decide_labels(candidate, out);
  decide_split(candidate, out);
  decide_pictures(survey, candidate.dataset.task, out);
  decide_training(survey, candidate.dataset.task, static_cast<int64_t>(candidate.split.train.size()), out);
  return out;
}

}  // namespace dtrain
