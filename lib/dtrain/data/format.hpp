#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/task.hpp"

namespace dtrain {

struct DataOptions;
struct Dataset;

/// The configuration as a format's own check sees it, and where it says what is wrong.
class KeyReport {
 public:
  virtual ~KeyReport() = default;
  /// The configuration sets the key.
  virtual bool given(const std::string& key) const = 0;
  /// None of these was refused by itself, so that their values mean something.
  virtual bool sound(const std::vector<std::string>& keys) const = 0;
  /// Where the key is set, for messages: "a.yaml:7".
  virtual std::string where(const std::string& key) const = 0;
  /// Reported where the first of `keys` that is set stands.
  virtual void wrong(const std::vector<std::string>& keys, const std::string& sentence) = 0;
};

/// A layout of pictures and labels on disk: one row, beside its reader. Choices, checks and documentation of the
/// configuration, and what else differs between formats, follow from it. docs/contributing.md tells how to add one.
struct DataFormat {
  enum class LabelFile {
    none,
    optional,  ///< data.labels may name it
    required,
  };
  /// What folders are beneath data.root.
  enum class Folders {
    nothing,  ///< they mean nothing, but that parts may lie in them
    classes,  ///< or parts, which hold such
    masks,    ///< a folder of pictures and one of masks, or parts, which hold such
  };

  std::string name;               ///< of data.format; also of its own keys, data.NAME.*
  std::string task_default = {};  ///< for the documentation of `task`: what it is where tasks() tells one

  /// The tasks that its samples can be for, as far as the options tell; the first is meant where none is asked for.
  /// None: any; open() settles Task::from_format.
  std::vector<Task> (*tasks)(const DataOptions&) = nullptr;
  /// Fills classes, samples (without ids, in any order), notes, own_parts (as far as the reader knows, and whether
  /// samples tell any or not) and store (unset: files beneath root) of a data set whose task, format and root are set.
  /// `seed`: of the run.
  void (*open)(const DataOptions&, uint64_t seed, Dataset&) = nullptr;
  /// What is wrong between its keys, beyond what holds for all formats. Null: nothing can be. `task` as it will be.
  void (*check)(const DataOptions&, Task task, KeyReport&) = nullptr;

  /// Class names as far as the options tell them, without regard to data.classes; null: the data alone tell.
  std::optional<std::vector<std::string>> (*class_names)(const DataOptions&) = nullptr;
  /// Their number, where that is told without names, or apart from them. Null: the number of names.
  std::optional<int64_t> (*class_count)(const DataOptions&) = nullptr;
  std::vector<std::string> class_keys = {};  ///< the keys that decide both
  std::string classes_told_by = "the data";  ///< for messages; of a format with a label file: that file

  bool generated = false;     ///< made in memory: no root, no files, as many samples as are asked for
  bool record_files = false;  ///< several samples in a file; data.root may be one such file
  LabelFile label_file = LabelFile::none;
  std::string default_labels = {};  ///< for the documentation of data.labels: what holds where it is not given
  Folders folders = Folders::nothing;
  /// There are mask files, whose pixel values data.image_mask.mask_values turns into classes. Null: never.
  bool (*has_masks)(const DataOptions&) = nullptr;
  std::string masks_key = {};       ///< that decides has_masks(); "": always as it is
  std::string group_key = {};       ///< that names the column, or the like, with patients
  bool guesses_groups = false;      ///< a sample's group is cut from its file name, and may tell of no patient
  bool drops_first_folder = false;  ///< paths of its label file may begin with a folder that root does not hold
};

/// Every format, in the order of the documentation.
const std::vector<const DataFormat*>& data_formats();

/// The format of that name. Throws InternalError where there is none: names of users have been checked before.
const DataFormat* format_named(const std::string& name);

/// The one whose pictures are made in memory, for benchmarks.
const DataFormat* generated_format();

/// What stands in DataOptions until a configuration has named a format.
const DataFormat& image_folder_format();

}  // namespace dtrain
