#include "dtrain/draft/draft.hpp"

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/picture_input.hpp"
#include "dtrain/draft/candidates.hpp"
#include "dtrain/draft/decisions.hpp"
#include "dtrain/draft/draft_text.hpp"
#include "dtrain/draft/survey.hpp"

namespace dtrain {

namespace {

using Tick = std::function<void(int64_t, int64_t)>;

std::string quoted_root(const FolderLook& look) { return "'" + printable(look.root) + "'"; }

// The first sentence of a message with a list: enough to know what to do.
std::string in_brief(const std::string& sentence) {
  const std::vector<std::string> lines = lines_of(sentence);
  std::string text = lines.front();
  for (size_t i = 1; i < std::min<size_t>(lines.size(), 3); ++i) text += " " + std::string(trimmed(lines[i]));
  return text + (lines.size() > 3 ? " …" : "");
}

std::string head_of(const FolderLook& look, const Draft& draft) {
  std::string head = comment_lines("Drafted by dtrain init from " + quoted_root(look) + ": " + draft.seen + ".", "");
  for (const std::string& sentence : draft.to_fill_in) head += comment_lines("TO DO: " + printable(sentence) + ".", "");
  for (const std::string& sentence : draft.choices) head += comment_lines("Note: " + printable(sentence) + ".", "");
  return head + comment_lines("dtrain check --config THIS_FILE looks at every picture before you train.", "") + "\n";
}

void note_bad(const Survey& survey, Draft& draft) {
  const auto bad = static_cast<int64_t>(survey.bad.size());
  if (bad > 0)
    draft.to_fill_in.push_back("repair or take out the pictures that cannot be read, " + with_commas(bad) + " of the " +
                               with_commas(std::min(survey.pictures, kMostHeaders)) +
                               " looked at, such as: " + in_brief(survey.bad.begin()->second));
}

// A reading that was not taken, as comments at the end.
std::string other_reading(Candidate candidate) {
  std::string text =
      "\n" + comment_lines("Another reading: " + printable(candidate.reading.sees) +
                               ". For it put these lines in place of task and data's, and leave the rest:",
                           "");
  const Drafted drafted = decide_reading(std::move(candidate));
  for (const std::string& line : split_text(draft_yaml(drafted.experiment, drafted.lines), '\n'))
    if (!line.empty()) text += "#   " + line + "\n";
  return text;
}

Draft from_candidates(const FolderLook& look, Candidates found, const Tick& tick) {
  Draft draft;
  Candidate& best = found.open.front();
  const Survey survey = survey_of(best.dataset, tick);
  draft.seen = count_of(survey.pictures, "picture") + ", " + printable(best.reading.sees);
  const std::vector<std::string> notes = best.dataset.notes;
  const Drafted drafted = decide(std::move(best), survey);
  draft.to_fill_in = drafted.to_fill_in;
  draft.choices = drafted.choices;
  draft.choices.insert(draft.choices.end(), notes.begin(), notes.end());
  std::string others;
  constexpr size_t kMostOthers = 3;
  for (size_t i = 1; i < std::min(found.open.size(), kMostOthers); ++i) {
    draft.choices.push_back("the folder can also be read as " + found.open[i].reading.sees + ": see the end");
    others += other_reading(std::move(found.open[i]));
  }
  note_bad(survey, draft);
  draft.text = head_of(look, draft) + draft_yaml(drafted.experiment, drafted.lines) + others;
  return draft;
}

// --- where nothing opens

Drafted from_refusal(const Refusal& refusal) {
  Drafted out;
  out.experiment.data = refusal.reading.options;
  for (const std::string& key : keys_that_differ(refusal.reading.options)) {
    const auto why = refusal.reading.why.find(key);
    const std::string sees = key == "data.format" ? refusal.reading.sees : "";
    out.lines.push_back({key, why == refusal.reading.why.end() ? sees : why->second});
  }
  out.to_fill_in.push_back("what keeps the folder from being read as " + refusal.reading.sees + ": " +
                           in_brief(refusal.sentence));
  return out;
}

// Pictures, and nothing that says what they show.
Drafted from_pictures(const FolderLook& look) {
  Drafted out;
  out.experiment.data.root = look.root;
  out.lines.push_back({"data.root", ""});
  for (const DataFormat* format : data_formats())
    if (!format->wants.empty()) out.lines.push_back({"data.format", format->wants, true, format->name});
  out.to_fill_in.emplace_back(
      "what the pictures show: nothing in the folder says it, no folders of classes, no masks, no table; arrange them "
      "as one "
      "of the formats wants, and uncomment its line");
  return out;
}

Draft from_nothing(const FolderLook& look, const Candidates& found, const Tick& tick) {
  Draft draft;
  const bool tried = !found.refusals.empty();
  Drafted drafted = tried ? from_refusal(found.refusals.front()) : from_pictures(look);
  if (!look.pictures.empty()) {
    DataOptions options;
    options.allow_links = !look.links_out.empty();
    const Survey survey = survey_of(open_pictures(look.root, "", "", options).dataset, tick);
    decide_pictures(survey, natural_task(drafted.experiment.data).value_or(Task::multiclass), drafted);
    draft.seen = count_of(survey.pictures, "picture");
    note_bad(survey, draft);
  } else {
    draft.seen = drafted.to_fill_in.empty() ? "" : found.refusals.front().reading.sees;
  }
  draft.to_fill_in.insert(draft.to_fill_in.begin(), drafted.to_fill_in.begin(), drafted.to_fill_in.end());
  for (const std::string& sentence : look.unread)
    draft.to_fill_in.push_back("a table that can be read: " + in_brief(sentence));
  draft.text = head_of(look, draft) + draft_yaml(drafted.experiment, drafted.lines);
  return draft;
}

}  // namespace

Draft draft_configuration(const std::string& path, const Tick& tick) {
  const FolderLook look = look_at_folder(path);
  Candidates found = try_readings(look);
  if (!found.open.empty()) return from_candidates(look, std::move(found), tick);
  if (found.refusals.empty() && look.others == std::vector<std::string>{look.root})
    throw DataError(quoted_root(look) + " is neither a folder nor a record file; name the folder of the data set");
  if (look.pictures.empty() && found.refusals.empty())
    throw DataError(quoted_root(look) + " holds no picture and no record file that dtrain reads" +
                    (look.others.empty() ? "" : ", only such as " + printable(look.others.front())) +
                    "; docs/data.md lists the formats");
  return from_nothing(look, found, tick);
}

std::string with_refusal(const std::string& text, const std::string& sentence) {
  return comment_lines("TO DO: repair what dtrain check refuses: " + in_brief(sentence), "") + text;
}

}  // namespace dtrain
