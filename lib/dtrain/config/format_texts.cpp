#include "dtrain/config/format_texts.hpp"

#include <algorithm>
#include <utility>

#include "dtrain/base/text.hpp"

namespace dtrain {

static std::vector<std::string> names_of_formats(FormatTest test) {
  std::vector<std::string> names;
  for (const DataFormat* format : data_formats())
    if (test(*format)) names.push_back(format->name);
  return names;
}

static bool is_generated(const DataFormat& format) { return format.generated; }
static bool is_read(const DataFormat& format) { return !format.generated; }

bool has_label_file(const DataFormat& format) { return format.label_file != DataFormat::LabelFile::none; }
bool always_masks(const DataFormat& format) { return format.has_masks != nullptr && format.masks_key.empty(); }
bool has_record_files(const DataFormat& format) { return format.record_files; }
bool has_picture_files(const DataFormat& format) { return !format.record_files && !format.generated; }

std::string formats_text(FormatTest test, const std::string& last) { return join_last(names_of_formats(test), last); }

std::string when_format(FormatTest test) { return "`data.format` is " + formats_text(test, "or"); }

std::string when_not_generated() { return "`data.format` is not " + formats_text(is_generated, "or"); }

std::string all_formats() {
  std::vector<std::string> names = names_of_formats(is_read);
  for (const std::string& name : names_of_formats(is_generated)) names.push_back(name);
  return join_last(names, "or");
}

std::string default_tasks(const std::string& any) {
  std::vector<std::pair<std::string, std::vector<std::string>>> tasks;  // what a task is → formats
  std::vector<std::string> others;
  for (const DataFormat* format : data_formats()) {
    if (format->task_default.empty()) {
      others.push_back(format->name);
      continue;
    }
    const auto same = std::find_if(tasks.begin(), tasks.end(),
                                   [&](const auto& entry) { return entry.first == format->task_default; });
    if (same != tasks.end()) {
      same->second.push_back(format->name);
    } else {
      tasks.push_back({format->task_default, {format->name}});
    }
  }
  tasks.emplace_back(any, others);
  std::vector<std::string> parts;
  for (const auto& [task, formats] : tasks) parts.push_back(join_last(formats, "and") + " " + task);
  return join(parts, "; ");
}

std::string default_label_files() {
  std::string text;
  for (const DataFormat* format : data_formats())
    if (!format->default_labels.empty()) text += "; for " + format->name + " " + format->default_labels;
  return text;
}

std::vector<std::string> class_keys(std::vector<std::string> more) {
  for (const DataFormat* format : data_formats())
    more.insert(more.end(), format->class_keys.begin(), format->class_keys.end());
  return more;
}

}  // namespace dtrain
