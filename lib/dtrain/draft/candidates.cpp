#include "dtrain/draft/candidates.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/part_folders.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/draft/survey.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {

namespace {

// Lists of the parts, such as test_list.txt, whose every line names a sample, or a picture that is known to be absent.
void find_lists(const FolderLook& look, Candidate& found) {
  if (found.dataset.own_parts.by != OwnParts::By::nothing || found.reading.options.split.given) return;
  PathIndex samples;
  PathIndex absent;  // in the label table, but not in the folder
  for (size_t i = 0; i < found.dataset.samples.size(); ++i)
    samples.add(found.dataset.samples[i].path, static_cast<int64_t>(i));
  for (const std::string& name : found.dataset.left_out) absent.add(name, 0);
  std::map<std::string, std::string> lists;
  for (const std::string& file : look.others) {
    const std::string part = part_within(base_name(file));
    if (!lower_case(file).ends_with(".txt") || part.empty() || lists.contains(part)) continue;
    int64_t named = 0;
    int64_t others = 0;
    for (const std::string& line : split_text(read_text(whole_folder(look, file), kMostTableBytes), '\n'))
      if (const std::string name(trimmed(line)); samples.find(name) >= 0)
        ++named;
      else if (!name.empty() && absent.find(name) == PathIndex::kNone)
        ++others;
    if (named > 0 && others == 0)
      lists[part] = whole_folder(look, file);
    else if (named > 0)
      found.dataset.notes.push_back(file + " names " + count_of(named, "picture") + " and " + with_commas(others) +
                                    " that are not there, so it is not used; data.split.files could name it");
  }
  if (lists.empty()) return;
  Reading with = found.reading;
  with.options.split.files = lists;
  with.options.split.given = true;
  if (lists.contains("train") && lists.contains("valid")) with.options.split.valid = 0;
  for (const auto& [part, file] : lists) with.why["data.split.files." + part] = "every line names a picture";
  try {
    found = open_reading(std::move(with));
  } catch (const Error&) {
    // lists of another split
  }
}

/// The readings of one family that open.
struct Family {
  std::vector<Candidate> open;
};

Candidate settled(Family family) {
  Candidate first = std::move(family.open.front());
  const bool certain = first.reading.trust == Reading::Trust::certain;
  const bool alone = family.open.size() == 1 && first.reading.trust == Reading::Trust::offered;
  first.asked = !certain && !alone;
  for (size_t i = 1; i < family.open.size(); ++i)
    if (!first.reading.decides.empty() && !family.open[i].reading.decides.empty() &&
        (first.asked || family.open[i].reading.trust != Reading::Trust::asked))
      first.instead.push_back(std::move(family.open[i].reading));
  return first;
}

int weight_of(const Candidate& candidate) {
  constexpr int kOpenQuestion = 30;  // what needs no answer comes first
  return candidate.reading.likelihood - (candidate.asked ? kOpenQuestion : 0);
}

// Once the plain reading of a family opens, other ways to read its folders are not offered.
bool is_settled(const Family& family) { return !family.open.empty() && family.open.front().reading.decides.empty(); }

}  // namespace

Candidate open_reading(Reading reading) {
  Candidate found;
  take_own_channels(reading.options);
  if (!reading.options.image.files.empty())
    reading.why["data.image.files"] =
        "a picture is " + count_of(std::ssize(reading.options.image.files), "file") + ", one grey channel each";
  if (reading.options.image.is_stacked()) reading.why["data.image.channels"] = "as many as make a picture";
  found.dataset = open_dataset(reading.options, Task::from_format, 0);
  const auto classes = static_cast<int64_t>(found.dataset.classes.size());
  if (found.dataset.task == Task::multiclass && classes < 2)
    throw ConfigError("there is one class (" + join(found.dataset.classes, ", ") +
                      "), and a network needs two or more to tell apart");
  constexpr int64_t kFewClasses = 10;  // may have a picture each, where it is certain that they are classes
  if (found.dataset.task == Task::multiclass && 2 * classes > static_cast<int64_t>(found.dataset.samples.size()) &&
      (reading.trust != Reading::Trust::certain || classes > kFewClasses))
    throw ConfigError("nearly every picture has a value of its own, so these are no classes");
  found.split = split_dataset(found.dataset, reading.options.split);
  found.reading = std::move(reading);
  if (found.dataset.task == Task::segmentation && found.reading.trust != Reading::Trust::certain &&
      !looks_like_masks(found.dataset))
    throw DataError("the pictures in " + found.reading.options.image_mask.masks +
                    "/ have too many pixel values to be masks");
  return found;
}

Candidates try_readings(const FolderLook& look) {
  Candidates all;
  std::map<std::string, Family> families;
  std::vector<std::string> order;
  std::map<std::string, std::string> owner;  // table → the family that reads it
  for (Reading& reading : all_readings(look)) {
    const std::string family = reading.options.format->name + " " + reading.family;
    if (is_settled(families[family])) continue;
    if (const auto taken = owner.find(reading.table); taken != owner.end() && taken->second != family) continue;
    try {
      Candidate found = open_reading(reading);
      if (!reading.table.empty()) owner.emplace(reading.table, family);
      if (families[family].open.empty()) order.push_back(family);
      families[family].open.push_back(std::move(found));
    } catch (const Error& error) {
      all.refusals.push_back({std::move(reading), error.what()});
    }
  }
  for (const std::string& family : order) all.open.push_back(settled(std::move(families[family])));
  for (Candidate& candidate : all.open) find_lists(look, candidate);
  std::stable_sort(all.open.begin(), all.open.end(),
                   [](const Candidate& a, const Candidate& b) { return weight_of(a) > weight_of(b); });
  return all;
}

}  // namespace dtrain
