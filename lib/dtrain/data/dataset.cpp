#include "dtrain/data/dataset.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/spelling.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats.hpp"
#include "dtrain/data/packed_set.hpp"
#include "dtrain/data/part_folders.hpp"
#include "dtrain/data/record_set.hpp"
#include "dtrain/data/scan.hpp"
#include "dtrain/data/text_files.hpp"
#include "dtrain/io/tiff_pages.hpp"

namespace dtrain {

namespace fs = std::filesystem;

static Task checked_task(const DataOptions& options, Task task) {
  if (options.format == DataFormat::packed) return task;  // read_packed() compares it with the manifest's
  const Task natural = natural_task(options).value_or(Task::multilabel);
  const bool flags = has_records(options) && natural == Task::multiclass && task == Task::multilabel;
  if (task == Task::from_format || task == natural || flags || options.format == DataFormat::synthetic)
    return task == Task::from_format ? natural : task;
  throw ConfigError(std::string("task ") + task_name(task) + " does not fit data.format, whose samples are for " +
                    task_name(natural));
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
      throw ConfigError(with_list("data.classes names '" + name + "', which is no class of the data" +
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

// A training list without its validation list tells no split: data.split decides.
static void forget_lone_part(const DataOptions& options, Dataset& dataset) {
  const auto trains = [](const Sample& sample) { return sample.part == "train"; };
  if (!has_label_file(options) || !std::all_of(dataset.samples.begin(), dataset.samples.end(), trains)) return;
  for (Sample& sample : dataset.samples) sample.part.clear();
  if (!options.split.given)
    dataset.notes.push_back(
        "the label file tells of the training part alone: data.split makes the others, by sample unless data.split.by: "
        "patient keeps patients whole");
}

// Formats that are no layout of folders may lie in folders of parts all the same.
static void find_own_parts(const DataOptions& options, Dataset& dataset) {
  const bool layout = options.format == DataFormat::image_folder || options.format == DataFormat::image_mask;
  const bool column = options.format == DataFormat::csv && !options.csv.split.empty();
  const PartFolders folders = column ? PartFolders() : part_folders(options);
  if (!layout && !column) set_parts(folders, dataset.samples);
  if (!column) forget_lone_part(options, dataset);
  const auto told = [](const Sample& sample) { return !sample.part.empty(); };
  OwnParts& own = dataset.own_parts;
  if (column) {
    own = {OwnParts::By::column, "data.csv.split '" + options.csv.split + "'"};
  } else if (std::none_of(dataset.samples.begin(), dataset.samples.end(), told)) {
    return;
  } else if (has_records(options) || options.format == DataFormat::packed ||
             (options.format == DataFormat::chexpert && options.labels.empty())) {
    own = {OwnParts::By::names, options.format == DataFormat::packed     ? "the packed set"
                                : options.format == DataFormat::chexpert ? "the lists train.csv and valid.csv"
                                                                         : "the names of the record files"};
  } else {
    std::vector<std::string> names;
    for (const auto& [part, folder] : folders) names.push_back(printable(folder) + "/");
    own = {OwnParts::By::folders, "the folders " + join(names, ", ")};
  }
}

static int64_t size_of(const std::string& root, const std::string& path) {
  std::error_code error;
  const std::string whole = root + "/" + picture_path(path).file;
  const auto bytes = fs::file_size(whole, error);
  if (error) throw_errno("read the size of", whole, error.value());
  return static_cast<int64_t>(bytes);
}

static RecordPlace mask_place(const Sample& sample, size_t mask) {
  return sample.mask_places.empty() ? RecordPlace{} : sample.mask_places[mask];
}

static std::string size_text(const Dataset& dataset, const std::string& path, const RecordPlace& place) {
  if (place.file < 0) return std::to_string(size_of(dataset.root, path));
  return std::to_string(place.size) + " " + hex8(place.checksum);
}

static std::string label_text(const Sample& sample) {
  std::string text = std::to_string(sample.class_index);
  for (float label : sample.labels) text += label > 0.5F ? '1' : label == 0 ? '0' : '?';
  return text;
}

static std::string manifest_of(const Dataset& dataset, const DataOptions& options, uint64_t seed) {
  const bool synthetic = dataset.format == DataFormat::synthetic;
  constexpr char kEnd = '\0';
  Sha256 sha;
  for (const std::string& name : dataset.classes) sha.update(name + kEnd);
  for (const auto& [pixel, number] : dataset.mask_values)
    sha.update(std::to_string(pixel) + ":" + std::to_string(number) + kEnd);
  if (synthetic) {
    const ImageOptions& image = options.image;
    sha.update("synthetic " + std::to_string(seed) + " " + std::to_string(options.synthetic.samples) + " " +
               std::to_string(options.synthetic.classes) + " " + std::to_string(image.height) + " " +
               std::to_string(image.width) + " " + std::to_string(image.channels) + kEnd);
  }
  std::string line;
  for (const Sample& sample : dataset.samples) {
    line = sample.path + kEnd + label_text(sample) + kEnd + sample.group + kEnd;
    if (!synthetic) line += size_text(dataset, sample.path, sample.place) + kEnd;
    for (size_t i = 0; i < sample.masks.size(); ++i)
      line += sample.masks[i] + kEnd + size_text(dataset, sample.masks[i], mask_place(sample, i)) + kEnd;
    sha.update(line + '\n');
  }
  return sha.hex_digest();
}

static void read_format(const DataOptions& options, uint64_t seed, Dataset& dataset) {
  switch (options.format) {
    case DataFormat::image_folder:
      return read_image_folder(options, dataset);
    case DataFormat::nih_cxr14:
      return read_nih_cxr14(options, dataset);
    case DataFormat::chexpert:
      return read_chexpert(options, dataset);
    case DataFormat::csv:
      return read_csv(options, dataset);
    case DataFormat::image_mask:
      return read_image_mask(options, dataset);
    case DataFormat::tfrecord:
      return read_tfrecords(options, dataset);
    case DataFormat::webdataset:
      return read_webdataset(options, dataset);
    case DataFormat::packed:
      return read_packed(options, dataset);
    case DataFormat::synthetic:
      return make_synthetic(options, seed, dataset);
  }
}

Dataset open_dataset(const DataOptions& options, Task task, uint64_t seed) {
  Dataset dataset;
  dataset.task = checked_task(options, task);
  dataset.format = options.format;
  dataset.root = options.root;
  const bool one_file = has_records(options) && is_file(options.root);
  if (options.format != DataFormat::synthetic && !one_file) require_root(options.root);
  for (const auto& [part, file] : options.split.files) refuse_link_out(options, list_path(options.root, file));
  read_format(options, seed, dataset);
  for (const std::string& name : dataset.classes)
    require_plain_name(name, "the class", "the data in '" + options.root + "' must name it otherwise");
  if (!options.classes.empty()) choose_classes(dataset, options.classes);
  if (const std::vector<std::string> alike = spelled_alike(dataset.classes); !alike.empty())
    dataset.notes.push_back("classes that differ in case or spaces alone, each an output of its own: " +
                            join(alike, "; "));
  if (dataset.samples.empty())
    throw DataError("data.root '" + options.root + "' holds no sample: no picture with a label was found" +
                    (options.labels.empty() ? "" : " in " + options.labels));
  const auto before = [](const Sample& a, const Sample& b) { return natural_less(a.path, b.path); };
  if (!std::is_sorted(dataset.samples.begin(), dataset.samples.end(), before))
    std::sort(dataset.samples.begin(), dataset.samples.end(), before);
  if (options.format != DataFormat::synthetic) find_own_parts(options, dataset);
  for (Sample& sample : dataset.samples) sample.id = hash64(sample.path);
  dataset.manifest_sha256 = manifest_of(dataset, options, seed);
  return dataset;
}

// --- pixels

static std::string path_of(const Dataset& dataset, const std::string& relative) {
  return (fs::path(dataset.root) / relative).lexically_normal().string();
}

static std::vector<std::vector<std::byte>> read_mask_files(const Dataset& dataset, int64_t index) {
  const Sample& sample = dataset.samples[static_cast<size_t>(index)];
  std::vector<std::vector<std::byte>> files;
  for (size_t i = 0; i < sample.masks.size(); ++i)
    files.push_back(dataset.records ? dataset.records->read_mask(sample, i)
                                    : read_picture_file(path_of(dataset, sample.masks[i])));
  return files;
}

static std::vector<std::byte> read_picture_of(const Dataset& dataset, int64_t index) {
  const Sample& sample = dataset.samples[static_cast<size_t>(index)];
  return dataset.records ? dataset.records->read_picture(sample) : read_picture_file(path_of(dataset, sample.path));
}

std::string picture_name(const Dataset& dataset, int64_t index) {
  const Sample& sample = dataset.samples[static_cast<size_t>(index)];
  if (dataset.packed) return dataset.packed->shard(sample.place).name_of(sample.place.number);
  return dataset.records ? dataset.records->name_of(sample.path, sample.place) : path_of(dataset, sample.path);
}

static std::string mask_name(const Dataset& dataset, const Sample& sample, size_t mask) {
  const std::string& path = sample.masks[mask];
  return dataset.records ? dataset.records->name_of(path, mask_place(sample, mask)) : path_of(dataset, path);
}

int64_t SampleFiles::bytes() const {
  size_t sum = picture_bytes().size() + packed.mask.size();
  for (const auto& mask : masks) sum += mask.size();
  return static_cast<int64_t>(sum);
}

static PackedBytes read_packed_record(const Dataset& dataset, int64_t index) {
  const RecordPlace& place = dataset.samples[static_cast<size_t>(index)].place;
  return dataset.packed->shard(place).read(place.number);
}

SampleFiles read_sample_files(const Dataset& dataset, int64_t index) {
  if (dataset.format == DataFormat::synthetic) return {};
  if (dataset.packed) return {{}, {}, read_packed_record(dataset, index)};
  return {read_picture_of(dataset, index), read_mask_files(dataset, index), {}};
}

Image decode_picture(const Dataset& dataset, const DataOptions& options, int64_t index, uint64_t seed,
                     const SampleFiles& files) {
  if (dataset.format == DataFormat::synthetic) return synthetic_picture(dataset, options, index, seed);
  const RecordPlace& place = dataset.samples[static_cast<size_t>(index)].place;
  if (dataset.packed) return dataset.packed->shard(place).picture(place.number, files.packed);
  return decode_image(files.picture, picture_name(dataset, index));
}

Image read_picture(const Dataset& dataset, const DataOptions& options, int64_t index, uint64_t seed) {
  SampleFiles files;
  if (dataset.packed) {
    files.packed = read_packed_record(dataset, index);
  } else if (dataset.format != DataFormat::synthetic) {
    files.picture = read_picture_of(dataset, index);
  }
  return decode_picture(dataset, options, index, seed, files);
}

// Class of every pixel value.
static std::vector<uint8_t> class_table(const Dataset& dataset, int bits) {
  std::vector<uint8_t> table(size_t{1} << bits, 0);
  for (const auto& [value, number] : dataset.mask_values)
    if (value >= 0 && value < static_cast<int64_t>(table.size()))
      table[static_cast<size_t>(value)] = static_cast<uint8_t>(number);
  return table;
}

template <typename Value>
static void add_classes(const std::vector<Value>& values, int64_t channels, const std::vector<uint8_t>& table,
                        const std::string& path, std::vector<uint8_t>& out) {
  const auto stride = static_cast<size_t>(channels);
  for (size_t pixel = 0; pixel < out.size(); ++pixel) {
    const Value value = values[pixel * stride];
    for (size_t c = 1; c < stride; ++c)
      if (values[pixel * stride + c] != value)
        throw DataError("the mask '" + path +
                        "' is coloured; a mask must be grey, or a PNG with a palette, its values or the indices into "
                        "the palette as in mask_values");
    if (const uint8_t found = table[value]; found != 0) out[pixel] = found;
  }
}

static std::string size_text(const Image& image) {
  return std::to_string(image.height) + " × " + std::to_string(image.width);
}

static Image decode_packed_mask(const Dataset& dataset, const Sample& sample, const PackedBytes& stored) {
  const PackedShard& shard = dataset.packed->shard(sample.place);
  Image mask = shard.mask(sample.place.number, stored);
  if (std::any_of(mask.bytes.begin(), mask.bytes.end(), [&](uint8_t k) { return k > dataset.classes.size(); }))
    throw DataError(shard.name_of(sample.place.number) + ": its mask holds a class beyond those of the set");
  return mask;
}

Image decode_mask(const Dataset& dataset, const DataOptions& options, int64_t index, uint64_t seed,
                  const SampleFiles& files) {
  if (dataset.format == DataFormat::synthetic) return synthetic_mask(dataset, options, index, seed);
  const Sample& sample = dataset.samples[static_cast<size_t>(index)];
  if (dataset.packed) return decode_packed_mask(dataset, sample, files.packed);
  Image united;
  united.channels = 1;
  for (size_t i = 0; i < sample.masks.size(); ++i) {
    const std::string& path = sample.masks[i];
    const Image mask = decode_mask_image(files.masks[i], mask_name(dataset, sample, i));
    if (united.height == 0) {
      united.height = mask.height;
      united.width = mask.width;
      united.bytes.assign(static_cast<size_t>(mask.height * mask.width), 0);
    }
    if (mask.height != united.height || mask.width != united.width)
      throw DataError("the masks '" + sample.masks[0] + "' (" + size_text(united) + ") and '" + path + "' (" +
                      size_text(mask) + ") of '" + sample.path + "' differ in size");
    const std::vector<uint8_t> table = class_table(dataset, mask.bits);
    if (mask.bits == 8) add_classes(mask.bytes, mask.channels, table, path, united.bytes);
    if (mask.bits == 16) add_classes(mask.words, mask.channels, table, path, united.bytes);
  }
  return united;
}

Image read_mask(const Dataset& dataset, const DataOptions& options, int64_t index, uint64_t seed) {
  SampleFiles files;
  if (dataset.packed) {
    files.packed = read_packed_record(dataset, index);
  } else if (dataset.format != DataFormat::synthetic) {
    files.masks = read_mask_files(dataset, index);
  }
  return decode_mask(dataset, options, index, seed, files);
}

std::vector<int64_t> count_mask_pixels(const Image& mask, int64_t classes) {
  std::vector<int64_t> counts(static_cast<size_t>(classes) + 1, 0);
  for (const uint8_t number : mask.bytes) {
    check(number <= classes, "a mask holds no class beyond those of the data set");
    ++counts[number];
  }
  return counts;
}

std::vector<int64_t> mask_values_found(const Dataset& dataset, const DataOptions& options, int64_t index) {
  constexpr size_t kMost = 16;
  std::set<int64_t> values;
  if (options.format == DataFormat::synthetic) return {};
  if (dataset.packed) {
    const Image mask = read_mask(dataset, options, index, 0);
    values.insert(mask.bytes.begin(), mask.bytes.end());
    return {values.begin(), values.end()};
  }
  const std::vector<std::vector<std::byte>> files = read_mask_files(dataset, index);
  for (size_t i = 0; i < files.size(); ++i) {
    const Image mask = decode_mask_image(files[i], mask_name(dataset, dataset.samples[static_cast<size_t>(index)], i));
    values.insert(mask.bytes.begin(), mask.bytes.end());
    values.insert(mask.words.begin(), mask.words.end());
  }
  std::vector<int64_t> found(values.begin(), values.end());
  found.resize(std::min(found.size(), kMost));
  return found;
}

void require_same_size(const Dataset& dataset, int64_t index, const Image& picture, const Image& mask) {
  if (picture.height == mask.height && picture.width == mask.width) return;
  const Sample& sample = dataset.samples[static_cast<size_t>(index)];
  throw DataError("the picture '" + sample.path + "' (" + size_text(picture) + ") and its mask '" + sample.masks[0] +
                  "' (" + size_text(mask) + ") differ in size");
}

}  // namespace dtrain
