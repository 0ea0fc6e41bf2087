#include <algorithm>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/spelling.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/empty_values.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/part_folders.hpp"
#include "dtrain/data/formats/picture_channels.hpp"
#include "dtrain/data/formats/scan.hpp"
#include "dtrain/data/formats/text_files.hpp"
#include "dtrain/data/store/file_store.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"

namespace dtrain {

void refuse_task(const DataOptions& options, Task task) {
  throw ConfigError(std::string("task ") + name_of(task) + " does not fit data.format, whose samples are for " +
                    name_of(options.format->tasks(options).front()));
}

static Task checked_task(const DataOptions& options, Task task) {
  const std::vector<Task> tasks = options.format->tasks(options);
  if (tasks.empty()) return task;  // any: the reader decides
  if (task == Task::from_format) return tasks.front();
  if (std::find(tasks.begin(), tasks.end(), task) == tasks.end()) refuse_task(options, task);
  return task;
}

// --- data.classes

std::vector<int64_t> places_of(const std::vector<std::string>& wanted, const std::vector<std::string>& classes) {
  std::vector<int64_t> places;
  std::set<std::string> seen;
  for (const std::string& name : wanted) {
    if (!seen.insert(name).second) throw ConfigError("data.classes names '" + name + "' twice");
    const auto found = std::find(classes.begin(), classes.end(), name);
    if (found == classes.end()) {
      const std::string near = nearest_word(name, classes);
      throw ConfigError(with_list("data.classes names '" + name + "', which is not a class of the data" +
                                      (near.empty() ? "" : " (did you mean '" + near + "'?)") + "; there are:",
                                  classes));
    }
    places.push_back(found - classes.begin());
  }
  return places;
}

static void choose_classes(Dataset& dataset, const std::vector<std::string>& wanted) {
  const std::vector<int64_t> places = places_of(wanted, dataset.classes);
  std::vector<int64_t> new_index(dataset.classes.size(), -1);
  for (size_t i = 0; i < places.size(); ++i) new_index[static_cast<size_t>(places[i])] = static_cast<int64_t>(i);
  for (Sample& sample : dataset.samples) {
    if (dataset.task == Task::multiclass) sample.class_index = new_index[static_cast<size_t>(sample.class_index)];
    if (dataset.task != Task::multilabel) continue;
    std::vector<float> labels;
    for (int64_t place : places) labels.push_back(sample.labels[static_cast<size_t>(place)]);
    sample.labels = std::move(labels);
  }
  for (auto& [pixel, number] : dataset.mask_values) number = new_index[static_cast<size_t>(number - 1)] + 1;
  dataset.classes = wanted;
  if (dataset.task != Task::multiclass) return;
  const auto dropped = std::erase_if(dataset.samples, [](const Sample& sample) { return sample.class_index < 0; });
  if (dropped > 0)
    dataset.notes.push_back(count_of(static_cast<int64_t>(dropped), "picture") +
                            " of classes not in data.classes left out");
}

// --- what holds for every format

// A label file of the training part alone gives no split: data.split decides.
static void forget_lone_part(const DataOptions& options, Dataset& dataset) {
  const auto trains = [](const Sample& sample) { return sample.part == "train"; };
  if (options.format->label_file == DataFormat::LabelFile::none ||
      !std::all_of(dataset.samples.begin(), dataset.samples.end(), trains))
    return;
  for (Sample& sample : dataset.samples) sample.part.clear();
  if (!options.split.given)
    dataset.notes.emplace_back(
        "the label file covers only the training part: data.split makes the others, by sample unless data.split.by: "
        "patient keeps each patient in one part");
}

// In formats whose folders mean nothing else, files may still be in folders named like parts.
static void find_own_parts(const DataOptions& options, Dataset& dataset) {
  OwnParts& own = dataset.own_parts;
  if (own.by == OwnParts::By::column) return;
  if (options.format->folders == DataFormat::Folders::nothing) {
    const PartFolders folders = part_folders(options);
    set_parts(folders, dataset.samples);
    if (own.by == OwnParts::By::nothing) own = told_by_folders(folders);
  }
  forget_lone_part(options, dataset);
  const auto told = [](const Sample& sample) { return !sample.part.empty(); };
  if (std::none_of(dataset.samples.begin(), dataset.samples.end(), told)) own = {};
  if (options.format->folders != DataFormat::Folders::classes) judge_sounding_folders(options, dataset);
  tell_sounding_names(options, dataset);
}

static std::string label_text(const Sample& sample) {
  std::string text = std::to_string(sample.class_index);
  for (float label : sample.labels) text += label > 0.5F ? '1' : label == 0 ? '0' : '?';
  return text;
}

static std::string manifest_of(const Dataset& dataset) {
  constexpr char kEnd = '\0';
  Sha256 sha;
  for (const std::string& name : dataset.classes) sha.update(name + kEnd);
  for (const auto& [pixel, number] : dataset.mask_values)
    sha.update(std::to_string(pixel) + ":" + std::to_string(number) + kEnd);
  sha.update(dataset.store->manifest_head());
  std::string line;
  for (const Sample& sample : dataset.samples) {
    line = sample.path + kEnd + label_text(sample) + kEnd + sample.group + kEnd;
    sha.update(line + dataset.store->manifest_text(sample) + '\n');
  }
  return sha.hex_digest();
}

// Files of several pages, which are samples each: a DICOM of many frames may have been meant as one picture.
static void tell_pages(Dataset& dataset) {
  std::set<std::string> files;
  int64_t pages = 0;
  for (const Sample& sample : dataset.samples) {
    const PicturePath path = picture_path(sample.path);
    if (path.page == 0) continue;
    ++pages;
    files.insert(path.file);
  }
  if (pages > 0)
    dataset.notes.push_back(count_of(static_cast<int64_t>(files.size()), "file") + " of several pages or frames, " +
                            with_commas(pages) + " in all, each a sample: " + *files.begin() + " and the like");
}

Dataset open_dataset(const DataOptions& options, Task task, uint64_t seed) {
  Dataset dataset;
  dataset.task = checked_task(options, task);
  dataset.format = options.format;
  dataset.root = options.root;
  const DataFormat& format = *options.format;
  const bool one_file = format.record_files && is_file(options.root);
  if (!format.generated && !one_file) require_root(options.root);
  if (is_file(options.root + "/run.json") && is_file(options.root + "/config.yaml"))
    throw DataError("data.root '" + options.root +
                    "' is the folder of a run, which dtrain wrote; name the folder of the pictures");
  for (const auto& [part, file] : options.split.files) refuse_link_out(options, list_path(options.root, file));
  format.open(options, seed, dataset);
  if (!dataset.store) {
    dataset.store = std::make_shared<const FileStore>(options.root, options.image);
    if (format.label_file != DataFormat::LabelFile::none) require_siblings(options, dataset);
    require_stacks(options, dataset);
    tell_channels(options, dataset);
  }
  for (const std::string& name : dataset.classes)
    require_plain_name(name, "the class", "the data in '" + options.root + "' must use another name");
  refuse_empty_values(dataset, options.labels.empty() ? "data.root '" + options.root + "'" : options.labels);
  if (!options.classes.empty()) choose_classes(dataset, options.classes);
  if (const std::vector<std::string> alike = spelled_alike(dataset.classes); !alike.empty())
    dataset.notes.push_back("classes that differ only in case or spaces, each a separate output: " + join(alike, "; "));
  if (dataset.samples.empty())
    throw DataError("data.root '" + options.root + "' holds no sample: no picture with a label was found" +
                    (options.labels.empty()
                         ? ""
                         : " in " + options.labels + "; each row after the header names a picture and its label"));
  const auto before = [](const Sample& a, const Sample& b) { return natural_less(a.path, b.path); };
  if (!std::is_sorted(dataset.samples.begin(), dataset.samples.end(), before))
    std::sort(dataset.samples.begin(), dataset.samples.end(), before);
  if (!format.generated) find_own_parts(options, dataset);
  if (!format.generated) tell_unnamed_folders(options, dataset);
  tell_pages(dataset);
  for (Sample& sample : dataset.samples) sample.id = hash64(sample.path);
  dataset.manifest_sha256 = manifest_of(dataset);
  return dataset;
}

}  // namespace dtrain
