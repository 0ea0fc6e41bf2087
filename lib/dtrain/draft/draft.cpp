#include "dtrain/draft/draft.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/picture_input.hpp"
#include "dtrain/data/store/paths.hpp"
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
  for (const DraftNote& note : draft.to_fill_in) head += comment_lines("TO DO: " + printable(note.sentence) + ".", "");
  for (const DraftNote& note : draft.choices) head += comment_lines("Note: " + printable(note.sentence) + ".", "");
  return head +
         comment_lines(
             "dtrain check --config THIS_FILE looks at every picture before you train, and estimates how long that "
             "takes.",
             "") +
         "\n";
}

void note_bad(const Survey& survey, Draft& draft) {
  const auto bad = static_cast<int64_t>(survey.bad.size());
  if (bad > 0)
    draft.to_fill_in.push_back({"repair or take out the pictures that cannot be read, " + with_commas(bad) +
                                " of the " + with_commas(std::min(survey.pictures, kMostHeaders)) +
                                " looked at, such as: " + in_brief(survey.bad.begin()->second)});
}

// The text of the file; of each note the line that it is about.
void write_out(const FolderLook& look, const Drafted& drafted, Draft& draft) {
  std::map<std::string, int64_t> line_of;
  const std::string yaml = draft_yaml(drafted.experiment, drafted.lines, &line_of);
  const std::string head = head_of(look, draft);
  const int64_t above = std::count(head.begin(), head.end(), '\n');
  for (auto* notes : {&draft.to_fill_in, &draft.choices})
    for (DraftNote& note : *notes)
      for (const auto& [key, line] : line_of)
        if (!note.key.empty() && (key == note.key || key.starts_with(note.key + ".")) &&
            (note.line == 0 || above + line < note.line))
          note.line = above + line;
  draft.text = head + yaml;
}

// A reading that was not taken, as comments at the end: a configuration of its own, since another task wants another
// network, size and monitor.
std::string other_reading(Candidate candidate, const Tick& tick) {
  std::string text = "\n" + comment_lines("Another reading: " + printable(candidate.reading.sees) +
                                              ". For it take out all lines above and uncomment these:",
                                          "");
  const Survey survey = survey_of(candidate.dataset, tick);
  const Drafted drafted = decide(std::move(candidate), survey);
  for (const DraftNote& note : drafted.to_fill_in)
    for (const std::string& line : split_text(comment_lines("TO DO: " + printable(note.sentence) + ".", ""), '\n'))
      if (!line.empty()) text += "#   " + line + "\n";
  for (const std::string& line : split_text(draft_yaml(drafted.experiment, drafted.lines), '\n'))
    if (!line.empty()) text += "#   " + line + "\n";
  return text;
}

// Folders are taken for pictures and masks by their files' names alone, and something keeps them from being classes.
void note_refused_classes(const Candidates& found, Draft& draft) {
  const Reading& best = found.open.front().reading;
  if (found.open.front().dataset.task != Task::segmentation || best.trust == Reading::Trust::certain) return;
  for (const Refusal& refusal : found.refusals)
    if (refusal.reading.trust == Reading::Trust::certain && refusal.reading.table.empty() &&
        refusal.reading.options.root == best.options.root)
      return draft.to_fill_in.push_back({"whether the folders are " + best.sees +
                                             ", which their files' names say, or " + refusal.reading.sees +
                                             ", which this keeps them from being: " + in_brief(refusal.sentence),
                                         "data.format"});
}

Draft from_candidates(const FolderLook& look, Candidates found, const Tick& tick) {
  Draft draft;
  Candidate& best = found.open.front();
  const Survey survey = survey_of(best.dataset, tick);
  draft.seen = count_of(survey.pictures, "picture") + ", " + printable(best.reading.sees);
  note_refused_classes(found, draft);
  const std::vector<std::string> notes = best.dataset.notes;
  const Drafted drafted = decide(std::move(best), survey);
  draft.to_fill_in.insert(draft.to_fill_in.end(), drafted.to_fill_in.begin(), drafted.to_fill_in.end());
  draft.choices = drafted.choices;
  for (const std::string& note : notes) draft.choices.push_back({note});
  std::string others;
  constexpr size_t kMostOthers = 3;
  for (size_t i = 1; i < std::min(found.open.size(), kMostOthers); ++i) {
    draft.choices.push_back({"the folder can also be read as " + found.open[i].reading.sees + ": see the end"});
    others += other_reading(std::move(found.open[i]), tick);
  }
  note_bad(survey, draft);
  write_out(look, drafted, draft);
  draft.text += others;
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
  out.to_fill_in.push_back(
      {"what keeps the folder from being read as " + refusal.reading.sees + ": " + in_brief(refusal.sentence)});
  return out;
}

// A matrix: other programs' features or labels, without the names of pictures.
bool numbers_alone(const CsvTable& table) {
  double number = 0;
  for (int64_t row = 0; row < table.rows(); ++row)
    for (size_t column = 0; column < table.columns().size(); ++column) {
      const std::string text(trimmed(table.at(row, static_cast<int64_t>(column))));
      const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (!text.empty() && (failed != std::errc() || end != text.data() + text.size())) return false;
    }
  return true;
}

// Pictures, and nothing that says what they show.
Drafted from_pictures(const FolderLook& look) {
  Drafted out;
  out.experiment.data.root = look.root;
  out.lines.push_back({"data.root", ""});
  for (const DataFormat* format : data_formats())
    if (!format->wants.empty()) out.lines.push_back({"data.format", format->wants, true, format->name});
  std::vector<std::string> tables;
  for (const CsvTable& table : look.tables) tables.emplace_back(base_name(table.name()));
  std::string table = "no table";
  if (!tables.empty())
    table = "and no column of " + join_last(tables, "or") +
            (numbers_alone(look.tables.front()) ? ", which holds nothing but numbers," : "") +
            " names one of the pictures, below a first line with the names of its columns";
  out.to_fill_in.push_back({"what the pictures show: nothing in the folder says it, no folders of classes, no masks, " +
                                table + "; arrange them as one of the formats wants, and uncomment its line",
                            "data.format"});
  return out;
}

// The likeliest; but that two folders have equal names in them says less than that there are folders at all.
const Refusal& told_refusal(const std::vector<Refusal>& refusals) {
  const Reading& first = refusals.front().reading;
  if (first.trust == Reading::Trust::certain || natural_task(first.options) != Task::segmentation)
    return refusals.front();
  const auto certain = std::find_if(refusals.begin(), refusals.end(), [](const Refusal& refusal) {
    return refusal.reading.trust == Reading::Trust::certain;
  });
  return certain == refusals.end() ? refusals.front() : *certain;
}

Draft from_nothing(const FolderLook& look, const Candidates& found, const Tick& tick) {
  Draft draft;
  const bool tried = !found.refusals.empty();
  Drafted drafted = tried ? from_refusal(told_refusal(found.refusals)) : from_pictures(look);
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
    draft.to_fill_in.push_back({"a table that can be read: " + in_brief(sentence)});
  write_out(look, drafted, draft);
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
