#include "dtrain/data/formats/record_labels.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <unordered_map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"

namespace dtrain {

namespace {

/// The classes, found by name or by number.
class Classes {
 public:
  explicit Classes(std::vector<std::string> names) : names_(std::move(names)) {
    for (const std::string& name : names_) places_.emplace(name, static_cast<int64_t>(places_.size()));
  }
  const std::vector<std::string>& names() const { return names_; }

  /// The index of a class, -1 if there is no such class. With `numbered` a number is the index itself.
  int64_t find(const std::string& text, bool is_number, bool numbered) const {
    const auto named = places_.find(text);
    if (named != places_.end() && !(is_number && numbered)) return named->second;
    int64_t number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return numbered && whole && number >= 0 && number < static_cast<int64_t>(names_.size()) ? number : -1;
  }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int64_t> places_;
};

/// Gives samples their labels, and collects those that do not fit.
class Labeller {
 public:
  Labeller(Dataset& dataset, const std::vector<FieldValues>& labels, const std::vector<std::string>& names)
      : dataset_(dataset), labels_(labels), names_(names) {}

  void run() {
    const bool flags = std::any_of(labels_.begin(), labels_.end(), [](const FieldValues& l) { return l.numeric; });
    if (dataset_.task == Task::multilabel && flags) {
      set_flags();
    } else {
      set_names();
    }
    if (!bad_.empty()) throw DataError(with_list(sentence_ + ":", bad_));
  }

 private:
  void refuse(size_t sample, const std::string& what) {
    bad_.push_back(picture_name(dataset_, static_cast<int64_t>(sample)) + ": " + what);
  }

  // Labels are one number for each class.
  void set_flags() {
    const size_t count = names_.empty() ? labels_[0].numbers.size() : names_.size();
    sentence_ = "labels of records do not fit task multilabel, which wants " +
                count_of(static_cast<int64_t>(count), "number") +
                " (one for each class: 0, 1 or NaN for unknown), or only texts";
    dataset_.classes = names_;
    for (size_t k = dataset_.classes.size(); k < count; ++k) dataset_.classes.push_back(std::to_string(k));
    for (size_t i = 0; i < labels_.size(); ++i) {
      const std::vector<double>& numbers = labels_[i].numbers;
      const auto wrong =
          std::find_if(numbers.begin(), numbers.end(), [](double x) { return x != 0 && x != 1 && !std::isnan(x); });
      if (numbers.size() != count) {
        refuse(i, labels_[i].numeric ? count_of(static_cast<int64_t>(numbers.size()), "number") : "no numbers");
      } else if (wrong != numbers.end()) {
        refuse(i, "the value " + shortest(*wrong));
      }
      dataset_.samples[i].labels.assign(numbers.begin(), numbers.end());
    }
  }

  // Labels are names of classes, or the number of one.
  void set_names() {
    const bool one = dataset_.task == Task::multiclass;
    const Classes classes(names_.empty() ? found_names() : names_);
    dataset_.classes = classes.names();
    sentence_ = one ? "labels of records do not fit task multiclass, which wants one class each"
                    : "labels of records do not fit task multilabel";
    if (!names_.empty()) sentence_ += ", of the configured names";
    for (size_t i = 0; i < labels_.size(); ++i) {
      Sample& sample = dataset_.samples[i];
      const FieldValues& label = labels_[i];
      if (one && label.texts.size() != 1) {
        refuse(i, count_of(static_cast<int64_t>(label.texts.size()), "value"));
        continue;
      }
      sample.labels.assign(one ? 0 : classes.names().size(), 0);
      for (const std::string& text : label.texts) {
        const int64_t place = classes.find(text, label.numeric, !names_.empty());
        if (place < 0) {
          refuse(i, "'" + text + "'");
        } else if (one) {
          sample.class_index = place;
        } else {
          sample.labels[static_cast<size_t>(place)] = 1;
        }
      }
    }
  }

  std::vector<std::string> found_names() const {
    std::set<std::string> all;
    for (size_t i = 0; i < labels_.size(); ++i)
      for (const std::string& text : labels_[i].texts)
        if (all.insert(text).second)
          require_plain_name(text, picture_name(dataset_, static_cast<int64_t>(i)) + ": the class",
                             "write it as UTF-8");
    std::vector<std::string> names(all.begin(), all.end());
    std::sort(names.begin(), names.end(), natural_less);
    return names;
  }

  Dataset& dataset_;
  const std::vector<FieldValues>& labels_;
  const std::vector<std::string>& names_;
  std::string sentence_;
  std::vector<std::string> bad_;
};

// The parts of files whose names differ in them alone: seg_train.tar, seg_test.tar.
std::vector<std::string> parts_by_word(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const std::string& file : files) names.emplace_back(base_name(file));
  const SoundingParts sounding = parts_among(names);
  std::vector<std::string> parts(files.size());
  if (sounding.kind != SoundingParts::Kind::usual) return parts;
  for (size_t i = 0; i < names.size(); ++i)
    for (const auto& [part, name] : sounding.all)
      if (name == names[i]) parts[i] = part;
  return parts;
}

// Files named train… and val… or test… are the parts, like folders with these names.
void set_parts_by_files(const std::vector<std::string>& files, Dataset& dataset) {
  std::vector<std::string> parts;
  for (const std::string& file : files) parts.push_back(part_of_file(file));
  const auto has = [&](const char* part) { return std::find(parts.begin(), parts.end(), part) != parts.end(); };
  const auto decide = [&] { return has("train") && (has("valid") || has("test")); };
  if (!decide()) parts = parts_by_word(files);
  if (!decide()) return;
  for (Sample& sample : dataset.samples) sample.part = parts[static_cast<size_t>(sample.place.file)];
}

}  // namespace

std::vector<std::string> find_record_files(const DataOptions& options, NameTest wanted, const std::string& kind) {
  if (is_file(options.root)) return {std::string(base_name(options.root))};
  FolderScan scan = scan_folder(options.root, options.root, options.allow_links, wanted);
  if (scan.pictures.empty()) throw DataError("data.root '" + options.root + "' holds no " + kind);
  return std::move(scan.pictures);
}

std::string part_of_file(const std::string& file) {
  const std::string_view name = base_name(file);
  return part_called(name.substr(0, name.find_first_of("-_.0123456789")));
}

void finish_records(const DataOptions& options, const std::vector<std::string>& names,
                    const std::vector<FieldValues>& labels, const std::vector<std::string>& files, Dataset& dataset) {
  set_parts_by_files(files, dataset);
  dataset.own_parts = {OwnParts::By::names, "the names of the record files"};
  if (has_mask_files(options)) {
    set_mask_values(options.image_mask.mask_values, dataset);
  } else if (!labels.empty()) {
    Labeller(dataset, labels, names).run();
  }
}

std::vector<Task> tasks_of_records(const DataOptions& options) {
  if (has_mask_files(options)) return {Task::segmentation};
  return {Task::multiclass, Task::multilabel};
}

std::optional<std::vector<std::string>> record_classes(const DataOptions& options,
                                                       const std::vector<std::string>& names) {
  if (has_mask_files(options)) return mask_classes_told(options);
  return names.empty() ? std::nullopt : std::optional(names);
}

std::optional<int64_t> record_class_count(const DataOptions& options, const std::vector<std::string>& names) {
  if (has_mask_files(options)) return mask_classes_count(options);
  return names.empty() ? std::nullopt : std::optional(static_cast<int64_t>(names.size()));
}

void check_records(const DataOptions& options, KeyReport& report) {
  const std::string& group = options.format->group_key;
  if (options.split.by == SplitOptions::By::patient && report.sound({"data.split.by"}) && !report.given(group))
    report.wrong({"data.split.by"}, "data.split.by patient needs " + group + ", which names the patient");
  if (has_mask_files(options)) check_mask_values(options, report);
}

}  // namespace dtrain
