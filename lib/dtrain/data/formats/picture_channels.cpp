#include "dtrain/data/formats/picture_channels.hpp"

#include <algorithm>
#include <filesystem>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/store/channel_files.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"

namespace dtrain {

namespace fs = std::filesystem;

static std::string key_and(const ChannelFiles& channels) { return "data.image.files " + channels.text(); }

void keep_first_files(const DataOptions& options, const std::string& folder, std::vector<std::string>& pictures,
                      Dataset& dataset) {
  const ChannelFiles channels(options.image.files);
  if (!channels.several() || pictures.empty()) return;
  const std::string whole = folder.empty() ? options.root : options.root + "/" + folder;
  ChannelList list = channel_list(channels, pictures);
  if (!list.missing.empty())
    throw DataError(with_list("pictures in '" + whole + "' lack files of their channels (" +
                                  with_commas(std::ssize(list.missing)) + "); " + key_and(channels) +
                                  " wants one file for each; add what is missing, or take the picture out:",
                              list.missing));
  if (list.pictures.empty())
    throw DataError("no name of the " + count_of(std::ssize(list.others), "picture") + " in '" + whole +
                    "' ends in one of " + key_and(channels) + " before its format's ending, as " + list.others.front() +
                    "; write what the names of a picture's files end in");
  if (!list.others.empty())
    dataset.warnings.push_back(count_of(std::ssize(list.others), "picture") + " left out whose names end in none of " +
                               key_and(channels) + ", such as " + list.others.front());
  pictures = std::move(list.pictures);
}

void require_siblings(const DataOptions& options, Dataset& dataset) {
  const ChannelFiles channels(options.image.files);
  if (!channels.several()) return;
  std::vector<std::string> missing;
  std::vector<std::string> incomplete;
  for (const Sample& sample : dataset.samples) {
    if (channels.channel_of(sample.path) != 0)
      throw DataError("the label file names '" + sample.path + "', but with " + key_and(channels) +
                      " a picture is named by its first file, which ends in " + channels.first_ending() +
                      " before its format's ending; correct the row or the key");
    const size_t before = missing.size();
    for (size_t i = 1; i < channels.count(); ++i) {
      const std::string other = channels.sibling(sample.path, i);
      if (!is_file((fs::path(options.root) / picture_path(other).file).string()))
        missing.push_back(other + ", beside " + sample.path);
    }
    if (missing.size() > before) incomplete.push_back(sample.path);
  }
  if (missing.empty()) return;
  if (options.on_missing == OnMissing::fail || incomplete.size() == dataset.samples.size())
    throw DataError(with_list("pictures lack files of their channels (" + with_commas(std::ssize(missing)) + "); " +
                                  key_and(channels) +
                                  " wants one file for each; add what is missing, or leave such pictures out with "
                                  "data.on_missing: skip:",
                              missing));
  std::sort(incomplete.begin(), incomplete.end());
  std::erase_if(dataset.samples, [&](const Sample& sample) {
    return std::binary_search(incomplete.begin(), incomplete.end(), sample.path);
  });
  dataset.warnings.push_back(count_of(std::ssize(incomplete), "picture") +
                             " left out because files of their channels are missing (data.on_missing: skip), such as " +
                             missing.front());
  dataset.left_out.insert(dataset.left_out.end(), incomplete.begin(), incomplete.end());
}

void tell_channels(const DataOptions& options, Dataset& dataset) {
  const ImageOptions& image = options.image;
  if (!image.files.empty())
    dataset.notes.push_back("each picture is " + count_of(std::ssize(image.files), "file") +
                            ", one grey channel each: " + join(image.files, ", "));
  if (image.slices > 1)
    dataset.notes.push_back("each picture is " + std::to_string(image.slices) +
                            " neighbouring pages, one grey channel each");
}

bool holds_stacks(const Dataset& dataset) {
  const auto is_page = [](const Sample& sample) { return picture_path(sample.path).page > 0; };
  return std::any_of(dataset.samples.begin(), dataset.samples.end(), is_page);
}

void require_stacks(const DataOptions& options, const Dataset& dataset) {
  if (options.image.slices <= 1 || dataset.samples.empty() || holds_stacks(dataset)) return;
  throw ConfigError("data.image.slices is " + std::to_string(options.image.slices) + ", but none of the " +
                    count_of(std::ssize(dataset.samples), "picture") +
                    " is a page of a stack (a TIFF file of several pages, a DICOM file of several frames), such as " +
                    dataset.samples.front().path +
                    "; slices in files of their own have no neighbours that dtrain knows: write them as a stack, or "
                    "leave the key out");
}

void take_own_channels(DataOptions& options) {
  ImageOptions& image = options.image;
  if (image.is_stacked() || options.root.empty() || options.format->own_channels == nullptr) return;
  options.format->own_channels(options, image);
  if (image.is_stacked()) image.channels = image.stacked_channels();
}

}  // namespace dtrain
