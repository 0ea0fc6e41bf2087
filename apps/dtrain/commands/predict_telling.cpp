#include "commands/predict_telling.hpp"

#include <algorithm>
#include <vector>

#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/train/mirrored_views.hpp"

namespace dtrain {

PredictTelling::PredictTelling(const PredictCommand& command, Job& job, int64_t before, int64_t all)
    : line_(job.is_root() ? command.progress : ProgressMode::none, job.launched(), job.log()),
      before_(before),
      all_(all) {}

void PredictTelling::show(int64_t done) {
  const double rate = static_cast<double>(done - before_) / std::max(watch_.seconds(), 1e-3);
  line_.show(done, all_, [&] {
    return ProgressFields{{"predicting  " + with_commas(done) + "/" + with_commas(all_) + " pictures", 3},
                          {fixed(rate, rate < 10 ? 1 : 0) + " pictures/s", 1},
                          {"eta " + (rate > 0 ? clock_text(static_cast<double>(all_ - done) / rate) : "?"), 2}};
  });
}

std::string what_was_written(const Predicted& predicted, const std::string& folder) {
  const std::string below = printable(folder) + "/";
  const std::string table = below + "predictions.csv";
  if (predicted.values.empty())
    return table + " has a row for each, with " +
           (predicted.task == Task::multiclass ? "the probability of each class and the most probable class"
                                               : "the probability of each label") +
           (predicted.label_thresholds.empty() ? "" : ", and whether it is there") +
           (predicted.cam ? "; " + below + "cams/ shows where " +
                                (predicted.cam_class ? printable(predicted.classes[*predicted.cam_class])
                                                     : std::string("the one with the highest score")) +
                                " was seen"
                          : "");
  std::vector<std::string> values;
  for (size_t k = 1; k < predicted.values.size(); ++k)
    values.push_back(std::to_string(predicted.values[k]) + " " + printable(predicted.classes[k - 1]));
  return below + "masks/ has a mask for each that could be read, of the picture's size, with the pixel values " +
         std::to_string(predicted.values[0]) + " background, " + join(values, ", ") +
         (predicted.overlay ? "; " + below + "overlays/ their outlines" : "") +
         (predicted.scores ? "; " + below + "scores/ the probabilities, 65535 is 1" : "") + "; " + table +
         " has the mean probability of each class";
}

std::string off_range_sentence(const std::vector<std::string>& paths, const PredictEnsemble& ensemble) {
  const ImageOptions& image = ensemble.first().pictures();
  const std::string pictures = count_of(static_cast<int64_t>(paths.size()), "picture") + ", such as " + paths.front();
  if (image.range_low != image.range_high)
    return "data.image.range [" + shortest(image.range_low) + ", " + shortest(image.range_high) + "] of " +
           ensemble.first().weights() + " leaves nothing of " + pictures +
           ": all their pixels are below or above it, so they are black or white to the network; convert them to the "
           "range of the pictures that it was trained on";
  return "the brightest pixel of " + pictures + ", has less than " + fixed(100 * ListedPictures::kNarrow, 0) +
         " % of the white of 16 bits, so the network sees them dark; unless it was trained on such, convert them to "
         "the "
         "range of the pictures that it was trained on, or set data.image.range";
}

std::string how_it_is_seen(const PredictCommand& command, const PredictEnsemble& ensemble) {
  std::vector<std::string> how;
  const auto& members = ensemble.members();
  if (members.size() > 1) how.push_back("mean of " + std::to_string(members.size()) + " networks");
  if (command.mirror)
    how.push_back("mean of " + std::to_string(mirrored_views(ensemble.first().experiment().task).size()) +
                  " mirrored views");
  for (const auto& member : members)
    if (const ImageOptions& image = member->experiment().data.image; member->tiles() > 1)
      how.push_back("resized to " + std::to_string(image.height) + " × " + std::to_string(image.width) +
                    " and seen in " + std::to_string(member->tiles()) + " tiles of " +
                    std::to_string(image.window_height) + " × " + std::to_string(image.window_width) + " by " +
                    member->weights());
  for (const auto& member : members)
    if (member->experiment().task == Task::segmentation && member->pictures().resize == Resize::crop)
      how.push_back("what resize: crop cuts off is never seen by " + member->weights() +
                    ", so it is background in masks");
  for (const auto& member : members) {
    const Fitted& fitted = member->fitted();
    const std::string of = members.size() > 1 ? " of " + member->weights() : "";
    if (fitted.temperature && member->experiment().task != Task::segmentation)
      how.push_back("temperature " + shortest(*fitted.temperature) + of + ", fitted on " + fitted.temperature_from);
    if (fitted.thresholds.empty()) continue;
    if (command.threshold || members.size() > 1)
      how.push_back("the thresholds" + of + " that eval has chosen are not used, " +
                    (command.threshold ? "but --threshold" : "because they were not chosen for the mean"));
    else
      how.push_back("thresholds chosen on " + fitted.thresholds_from);
  }
  return join(how, "; ");
}

}  // namespace dtrain
