#include "dtrain/base/text.hpp"
#include "dtrain/config/checks.hpp"

namespace dtrain {

static void check_stacked(const ImageOptions& image, KeyReport& report) {
  const std::string key = "data.image.channels";
  const bool by_files = !image.files.empty();
  if (!report.sound({key, "data.image.files", "data.image.slices"})) return;
  if (by_files && image.slices > 1)
    return report.wrong({"data.image.slices", "data.image.files"},
                        "data.image.files and data.image.slices both say what the channels are; leave one of them out");
  if (std::ssize(image.files) > ImageOptions::kMostChannels)
    return report.wrong({"data.image.files"}, "data.image.files names " + count_of(std::ssize(image.files), "ending") +
                                                  "; a picture has at most " +
                                                  std::to_string(ImageOptions::kMostChannels) + " channels");
  const std::string from = by_files ? "data.image.files [" + join(image.files, ", ") + "] makes "
                                    : "data.image.slices " + std::to_string(image.slices) + " makes ";
  if (image.is_stacked() && image.channels != image.stacked_channels())
    report.wrong({key}, key + " is " + std::to_string(image.channels) + ", but " + from +
                            count_of(image.stacked_channels(), "channel") + "; leave it out, the number follows");
  if (!image.is_stacked() && image.channels != 1 && image.channels != 3)
    report.wrong({key}, key + " wants 1 or 3, not " + std::to_string(image.channels) +
                            ": other numbers follow from data.image.files or data.image.slices");
}

void check_channels(const ImageOptions& image, KeyReport& report) {
  check_stacked(image, report);
  for (const std::string key : {"data.image.mean", "data.image.std"}) {
    const auto count = std::ssize(key == "data.image.mean" ? image.mean : image.std);
    if (report.sound(
            {"data.image.channels", "data.image.files", "data.image.slices", "model.name", "model.encoder", key}) &&
        count != image.channels)
      report.wrong({key, "data.image.channels"},
                   key + " has " + count_of(count, "value") + " for " + count_of(image.channels, "channel") +
                       "; give one for each channel" + (image.is_stacked() ? "" : ", or set data.image.channels"));
  }
}

}  // namespace dtrain
