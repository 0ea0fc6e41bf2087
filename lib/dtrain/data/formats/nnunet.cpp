#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/picture_channels.hpp"
#include "dtrain/data/formats/scan.hpp"
#include "dtrain/data/formats/text_files.hpp"
#include "dtrain/data/store/channel_files.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"

namespace dtrain {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr const char* kImages = "imagesTr";
constexpr const char* kLabels = "labelsTr";

std::string description_path(const DataOptions& options) { return options.root + "/dataset.json"; }

// --- dataset.json: {"channel_names": {"0": "grey"}, "labels": {"background": 0, "cell": 1}, "numTraining": 20,
//                    "file_ending": ".png"}

Json read_description(const std::string& path) {
  constexpr int64_t kMost = int64_t{16} << 20;
  Json json = parse_json(read_text(path, kMost), "'" + path + "'");
  if (!json.is_object()) throw DataError("'" + path + "' is not a JSON object, as nnU-Net's dataset.json must be");
  return json;
}

// Refuses NIfTI and other files that are not pictures.
void require_picture_ending(const Json& json, const std::string& path) {
  const auto found = json.find("file_ending");
  if (found == json.end())
    throw DataError("'" + path +
                    "' has no file_ending, as in nnU-Net's first version, whose cases are NIfTI volumes; dtrain reads "
                    "pictures: write the slices as PNG and add \"file_ending\": \".png\"");
  if (!found->is_string())
    throw DataError("'" + path + "': file_ending is " + kind_of(*found) + "; it wants a text, as in \".png\"");
  const auto ending = found->get<std::string>();
  if (lower_case(ending) == ".nii" || lower_case(ending) == ".nii.gz")
    throw DataError("'" + path + "' describes NIfTI volumes (" + ending +
                    "), which dtrain does not read; write their slices as PNG, images as CASE_0000.png");
  if (!has_image_extension("case" + ending))
    throw DataError("'" + path + "' has the file_ending '" + ending + "', which dtrain does not read; use .png");
}

// Pixel value → class, in the order of the values; fills the classes' names.
std::map<int64_t, int64_t> read_labels(const Json& json, const std::string& path, std::vector<std::string>& classes) {
  const auto labels = json.find("labels");
  if (labels == json.end() || !labels->is_object())
    throw DataError("'" + path + "' has no labels, as in \"labels\": {\"background\": 0, \"cell\": 1}");
  std::map<int64_t, std::string> names;
  for (const auto& [name, value] : labels->items()) {
    if (value.is_array())
      throw DataError("'" + path + "': the label '" + name +
                      "' is a region of several values; regions overlap, and dtrain gives each pixel one class");
    if (name == "ignore")
      throw DataError("'" + path + "' has an ignore label, which dtrain does not support; give those pixels a class");
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > 65535)
      throw DataError("'" + path + "': the label '" + name + "' wants a pixel value from 0 to 65535, not " +
                      (value.is_number_integer() ? "another number" : kind_of(value)));
    require_plain_name(name, "'" + path + "': the label", "save the file as UTF-8");
    if (!names.emplace(value.get<int64_t>(), name).second)
      throw DataError("'" + path + "' gives the pixel value " + std::to_string(value.get<int64_t>()) + " two labels");
  }
  if (!names.contains(0)) throw DataError("'" + path + "' gives no label the value 0, the background");
  std::map<int64_t, int64_t> values;
  for (const auto& [value, name] : names) {
    if (value == 0) continue;
    classes.push_back(name);
    values[value] = static_cast<int64_t>(classes.size());
  }
  if (classes.empty() || classes.size() > 255)
    throw DataError("'" + path + "' has " + count_of(static_cast<int64_t>(classes.size()), "label") +
                    " besides the background; dtrain takes 1 to 255");
  return values;
}

// --- cases

// "case" of "case_0000.png", and in `channel` the channel's number; "" if the name has none.
std::string case_of(const std::string& picture, std::string& channel) {
  const std::string stem(without_ending(picture));
  const size_t mark = stem.rfind('_');
  const bool numbered = mark != std::string::npos && stem.size() - mark == 5 &&
                        stem.find_first_not_of("0123456789", mark + 1) == std::string::npos;
  channel = numbered ? stem.substr(mark + 1) : "";
  return numbered ? stem.substr(0, mark) : "";
}

struct Case {
  std::vector<std::string> images;  // one, or the pages of a stack
  std::vector<std::string> masks;
};

std::string file_of(const std::vector<std::string>& pages) { return picture_path(pages[0]).file; }

// Adds `path` to the pages of a case, which must all be from one file.
void add_page(std::vector<std::string>& pages, const std::string& path, const std::string& what,
              std::vector<std::string>& problems) {
  const PicturePath added = picture_path(path);
  if (pages.empty() || file_of(pages) == added.file) return pages.push_back(path);
  if (added.page <= 1) problems.push_back("two " + what + " of one case: " + file_of(pages) + ", " + added.file);
}

// One sentence for all such cases. `channels`: their numbers without 0000; `example`: a picture of one of them.
std::string channels_problem(std::set<std::string> channels, const std::string& example) {
  channels.insert("0000");
  const auto count = static_cast<int64_t>(channels.size());
  return "cases of " + count_of(count, "channel") + ", each in a separate file (CASE_" +
         join({channels.begin(), channels.end()}, ", CASE_") + "; " + example +
         "), but channel_names in dataset.json does not count so many: correct it, or name the channels that you need "
         "with data.image.files, as in data.image.files=[_0000, _0001]";
}

// The pictures of cases of several files are named by the first.
void add_channels(const ChannelFiles& channels, const std::vector<std::string>& pictures,
                  std::map<std::string, Case>& cases, std::vector<std::string>& problems) {
  for (const std::string& picture : pictures) {
    const std::string_view stem = without_ending(picture);
    const std::string name(stem.substr(0, stem.size() - channels.first_ending().size()));
    add_page(cases[name].images, std::string(kImages) + "/" + picture, "images", problems);
  }
}

void add_images(const DataOptions& options, Dataset& dataset, std::map<std::string, Case>& cases,
                std::vector<std::string>& problems) {
  std::vector<std::string> pictures = scan_beneath(options.root, kImages, options.allow_links).pictures;
  keep_first_files(options, kImages, pictures, dataset);
  if (const ChannelFiles files(options.image.files); files.several())
    return add_channels(files, pictures, cases, problems);
  std::set<std::string> channels;
  std::string of_channel;
  for (const std::string& picture : pictures) {
    std::string channel;
    const std::string name = case_of(picture, channel);
    if (channel.empty()) {
      problems.push_back("no channel number before the ending, as in CASE_0000.png: " + picture);
    } else if (channel != "0000") {
      if (channels.empty()) of_channel = picture_path(picture).file;
      channels.insert(channel);
    } else {
      add_page(cases[name].images, std::string(kImages) + "/" + picture, "images", problems);
    }
  }
  if (!channels.empty()) problems.push_back(channels_problem(channels, of_channel));
}

void add_masks(const DataOptions& options, std::map<std::string, Case>& cases, std::vector<std::string>& problems) {
  for (const std::string& picture : scan_beneath(options.root, kLabels, options.allow_links).pictures) {
    const std::string mask = std::string(kLabels) + "/" + picture;
    add_page(cases[std::string(without_ending(picture))].masks, mask, "masks", problems);
    if (const std::string format = inexact_format(picture); !format.empty())
      problems.push_back("mask is " + format + ", which changes pixel values: " + mask);
  }
}

std::map<std::string, Case> find_cases(const DataOptions& options, Dataset& dataset) {
  if (!is_folder(options.root + "/" + kLabels))
    throw MissingError("'" + options.root + "' holds imagesTr/ and dataset.json, as nnU-Net wants, but no labelsTr/");
  std::map<std::string, Case> cases;
  std::vector<std::string> problems;
  add_images(options, dataset, cases, problems);
  add_masks(options, cases, problems);
  for (const auto& [name, found] : cases) {
    if (found.images.empty()) {
      problems.push_back("mask without image: " + file_of(found.masks));
    } else if (found.masks.empty()) {
      problems.push_back("image without mask: " + file_of(found.images));
    } else if (found.images.size() != found.masks.size()) {
      problems.push_back(file_of(found.images) + " has " + count_of(static_cast<int64_t>(found.images.size()), "page") +
                         ", its mask has " + std::to_string(found.masks.size()));
    }
  }
  if (!problems.empty())
    throw DataError(with_list("the cases of '" + options.root + "' cannot be read (" +
                                  count_of(static_cast<int64_t>(problems.size()), "problem") +
                                  "); add what is missing, or take the case out:",
                              problems));
  return cases;
}

void require_count(const Json& json, size_t cases, const std::string& path) {
  const auto count = json.find("numTraining");
  if (count == json.end() || (count->is_number_integer() && count->get<int64_t>() == static_cast<int64_t>(cases)))
    return;
  throw DataError("'" + path + "' says numTraining " +
                  (count->is_number_integer() ? std::to_string(count->get<int64_t>()) : kind_of(*count)) +
                  ", but imagesTr/ holds " + count_of(static_cast<int64_t>(cases), "case") +
                  "; a copy may have been interrupted");
}

}  // namespace

bool is_nnunet(const DataOptions& options) {
  const bool own =
      options.image_mask.images != kImages && is_folder((fs::path(options.root) / options.image_mask.images).string());
  return !own && is_folder(options.root + "/" + kImages) && is_file(description_path(options));
}

// channel_names, or `modality` as in its first version; none if it cannot be read, which open() tells.
static size_t channels_named(const std::string& path) {
  try {
    const Json json = read_description(path);
    for (const char* key : {"channel_names", "modality"})
      if (const auto names = json.find(key); names != json.end() && names->is_object()) return names->size();
  } catch (const Error&) {
  }
  return 0;
}

// A colour picture has three names in channel_names, too, but one file.
void nnunet_channels(const DataOptions& options, ImageOptions& image) {
  if (!is_nnunet(options)) return;
  const size_t count = channels_named(description_path(options));
  if (count < 2 || count > static_cast<size_t>(ImageOptions::kMostChannels)) return;
  std::error_code error;
  bool several = false;
  fs::directory_iterator entry(options.root + "/" + kImages, error);
  for (; !error && !several && entry != fs::directory_iterator(); entry.increment(error))
    several = without_ending(entry->path().filename().string()).ends_with("_0001");
  if (error || !several) return;
  for (size_t i = 0; i < count; ++i) image.files.push_back((i < 10 ? "_000" : "_00") + std::to_string(i));
}

// nnU-Net's layout has its own folder names, so keys that give others would have no effect.
static void require_own_folders(const DataOptions& options) {
  const auto refuse = [&](const std::string& key, const std::string& named, const std::string& own) {
    throw ConfigError(key + " " + named + " has no effect here: data.root '" + options.root +
                      "' is laid out for nnU-Net, with its pictures in imagesTr/ and its masks in labelsTr/; leave the "
                      "key out, or name " +
                      own);
  };
  const ImageMaskOptions untouched;
  const ImageMaskOptions& named = options.image_mask;
  if (named.images != untouched.images && named.images != kImages)
    refuse("data.image_mask.images", named.images, "a folder that exists");
  if (named.masks != untouched.masks && named.masks != kLabels)
    refuse("data.image_mask.masks", named.masks, "data.image_mask.images as well");
}

void read_nnunet(const DataOptions& options, Dataset& dataset) {
  const std::string path = description_path(options);
  require_own_folders(options);
  refuse_link_out(options, path);
  const Json json = read_description(path);
  require_picture_ending(json, path);
  dataset.mask_values = read_labels(json, path, dataset.classes);
  if (!options.image_mask.mask_values.empty()) set_mask_values(options.image_mask.mask_values, dataset);
  auto cases = find_cases(options, dataset);
  require_count(json, cases.size(), path);
  SampleTable table(dataset);
  for (auto& [name, found] : cases)
    for (size_t page = 0; page < found.images.size(); ++page) {
      Sample sample;
      sample.path = std::move(found.images[page]);
      sample.masks.push_back(std::move(found.masks[page]));
      table.add(std::move(sample));
    }
  group_stacks(dataset);
  if (is_folder(options.root + "/imagesTs"))
    dataset.notes.emplace_back("imagesTs/ left out: nnU-Net's test images; data.split.test makes a test part");
}

}  // namespace dtrain
