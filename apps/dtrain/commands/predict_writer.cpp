#include "commands/predict_writer.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/memory.hpp"
#include "dtrain/base/parallel.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/pixels/called_classes.hpp"
#include "dtrain/data/pixels/heat_map.hpp"
#include "dtrain/data/pixels/original_mask.hpp"
#include "dtrain/data/pixels/outlines.hpp"
#include "dtrain/io/files/csv.hpp"

namespace dtrain {

namespace {

size_t highest(const std::vector<double>& scores) {
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

// `scores` is empty for a picture that could not be read.
std::string row_of(const Predicted& job, const std::string& path, const std::vector<double>& scores) {
  std::string row = csv_field(path);
  for (size_t k = 0; k < job.classes.size(); ++k) row += scores.empty() ? "," : "," + shortest(scores[k]);
  for (size_t k = 0; k < job.label_thresholds.size(); ++k)
    row += scores.empty() ? "," : scores[k] >= job.label_thresholds[k] ? ",1" : ",0";
  if (job.task == Task::multiclass) row += "," + (scores.empty() ? "" : csv_field(job.classes[highest(scores)]));
  return row + "\n";
}

std::span<const float> plane_of(const at::Tensor& tensor, size_t i, size_t k) {
  const auto plane = static_cast<size_t>(tensor.size(2) * tensor.size(3));
  return {tensor.const_data_ptr<float>() + (i * static_cast<size_t>(tensor.size(1)) + k) * plane, plane};
}

void add(const std::vector<float>& values, std::vector<float>& sums) {
  for (size_t p = 0; p < sums.size(); ++p) sums[p] += values[p];
}

void divide(std::vector<float>& sums, size_t count) {
  for (float& sum : sums) sum /= static_cast<float>(count);
}

}  // namespace

std::string head_of(const Predicted& job) {
  std::string head = "path";
  for (const std::string& name : job.classes) head += "," + csv_field("score_" + name);
  if (!job.label_thresholds.empty())
    for (const std::string& name : job.classes) head += "," + csv_field("label_" + name);
  return head + (job.task == Task::multiclass ? ",class\n" : "\n");
}

std::vector<std::string> class_folders(const std::vector<std::string>& classes) {
  std::vector<std::string> folders;
  std::set<std::string> taken;
  for (size_t k = 0; k < classes.size(); ++k) {
    std::string name = classes[k];
    for (char& letter : name)
      if (std::string_view("/\\:*?\"<>|").find(letter) != std::string_view::npos) letter = '_';
    if (name.empty() || name.front() == '.') name.insert(0, "_");
    while (!taken.insert(lower_case(name)).second) name += "_" + std::to_string(k + 1);
    folders.push_back(name);
  }
  return folders;
}

std::vector<std::string> pictures_of(const Predicted& job, const std::string& path) {
  std::vector<std::string> kinds;
  if (!job.values.empty()) kinds.emplace_back("masks");
  if (job.overlay) kinds.emplace_back("overlays");
  if (job.scores)
    for (const std::string& folder : class_folders(job.classes)) kinds.push_back("scores/" + folder);
  if (job.cam) kinds.emplace_back("cams");
  for (std::string& kind : kinds) kind += "/" + output_stem(path) + std::string(kMaskEnding);
  return kinds;
}

PredictWriter::PredictWriter(const Predicted& job, const PredictEnsemble& ensemble, PredictOutput& output,
                             size_t threads, int64_t sharers)
    : job_(job),
      ensemble_(ensemble),
      output_(output),
      threads_(threads),
      sharers_(sharers),
      folders_(class_folders(job.classes)) {}

size_t PredictWriter::threads_for(const PredictEnsemble::Said& said) const {
  constexpr int64_t kSmall = int64_t{64} << 20;  // for which nobody is asked
  if (job_.values.empty() && !job_.cam) return 1;
  int64_t pixels = 1;
  for (const ListedPictures::Found& found : said.found) pixels = std::max(pixels, found.height * found.width);
  // Of each pixel: the probabilities of each class and one more plane of them, the class, the picture and what is
  // drawn.
  const int64_t bytes = pixels * (4 * (static_cast<int64_t>(job_.classes.size()) + 1) + 1 + 12);
  if (bytes * static_cast<int64_t>(threads_) <= kSmall) return threads_;
  const int64_t room = memory_budget().free_bytes / 2 / sharers_ / bytes;
  return std::min(threads_, static_cast<size_t>(std::max<int64_t>(1, room)));
}

PredictWriter::Told PredictWriter::write(const PredictEnsemble::Said& said,
                                         const std::function<void()>& progress) const {
  std::vector<std::vector<double>> scores(said.samples.size());
  std::atomic<size_t> finished{0};
  const auto judge = [&](size_t i) {
    if (said.found[i].bad.empty()) {
      scores[i] = job_.values.empty() ? numbers(said, i) : mask(said, i);
      if (job_.cam) write_cam(said, i, scores[i]);
    }
    ++finished;
  };
  size_t told_of = 0;
  const auto tell = [&] {
    if (const size_t now = finished; now > std::exchange(told_of, now)) progress();
  };
  run_in_parallel(scores.size(), threads_for(said), judge, tell);
  Told told;
  for (size_t i = 0; i < said.samples.size(); ++i) {
    told.rows += row_of(job_, sample(said, i).path, scores[i]);
    if (!said.found[i].bad.empty()) told.unread += printable(said.found[i].bad) + "\n";
    if (said.found[i].off_range) told.off_range += printable(sample(said, i).path) + "\n";
  }
  return told;
}

const Sample& PredictWriter::sample(const PredictEnsemble::Said& said, size_t i) const {
  return ensemble_.dataset().samples[static_cast<size_t>(said.samples[i])];
}

std::vector<double> PredictWriter::numbers(const PredictEnsemble::Said& said, size_t i) const {
  std::vector<double> scores(job_.classes.size(), 0);
  for (const auto& part : said.parts) {
    const double* first = part.probabilities.const_data_ptr<double>() + i * scores.size();
    for (size_t k = 0; k < scores.size(); ++k) scores[k] += first[k];
  }
  for (double& score : scores) score /= static_cast<double>(ensemble_.members().size());
  return scores;
}

// The probabilities of each class for the pixels of the picture.
std::vector<std::vector<float>> PredictWriter::planes(const PredictEnsemble::Said& said, size_t i) const {
  const ListedPictures::Found& found = said.found[i];
  std::vector<std::vector<float>> planes;
  for (size_t k = 0; k < job_.classes.size(); ++k) {
    planes.emplace_back(static_cast<size_t>(found.height * found.width), 0.0F);
    for (const auto& part : said.parts)
      add(at_picture_size(plane_of(part.probabilities, i, k), found.height, found.width, *part.pictures), planes[k]);
    divide(planes[k], ensemble_.members().size());
  }
  return planes;
}

// Writes the mask and what else shows it; a class's score is the mean of its probability over the picture.
std::vector<double> PredictWriter::mask(const PredictEnsemble::Said& said, size_t i) const {
  const int64_t height = said.found[i].height, width = said.found[i].width;
  const std::vector<std::vector<float>> probabilities = planes(said, i);
  const std::vector<uint8_t> called = called_classes(probabilities, job_.threshold);
  const std::string stem = output_stem(sample(said, i).path);
  output_.write_picture("masks", stem, mask_of(called, height, width, job_.values));
  if (job_.overlay) {
    Image picture = display(said, i);
    draw_outlines(picture, called, outline_width(height, width));
    output_.write_picture("overlays", stem, picture);
  }
  std::vector<double> scores;
  for (size_t k = 0; k < probabilities.size(); ++k) {
    if (job_.scores)
      output_.write_picture("scores/" + folders_[k], stem, probability_picture(probabilities[k], height, width));
    scores.push_back(std::accumulate(probabilities[k].begin(), probabilities[k].end(), 0.0) /
                     static_cast<double>(probabilities[k].size()));
  }
  return scores;
}

void PredictWriter::write_cam(const PredictEnsemble::Said& said, size_t i, const std::vector<double>& scores) const {
  const ListedPictures::Found& found = said.found[i];
  const size_t shown = job_.cam_class.value_or(highest(scores));
  std::vector<float> heat(static_cast<size_t>(found.height * found.width), 0.0F);
  for (const auto& part : said.parts)
    for (const at::Tensor& maps : part.maps)
      add(heat_at_picture_size({plane_of(maps, i, shown), maps.size(2), maps.size(3)}, found.height, found.width,
                               *part.pictures),
          heat);
  divide(heat, ensemble_.members().size());
  Image picture = display(said, i);
  draw_heat(picture, heat);
  output_.write_picture("cams", output_stem(sample(said, i).path), picture);
}

// The picture as people look at it.
Image PredictWriter::display(const PredictEnsemble::Said& said, size_t i) const {
  const Image picture = ensemble_.picture(said.samples[i]);
  if (picture.height != said.found[i].height || picture.width != said.found[i].width)
    throw DataError(sample(said, i).path + " was changed while it was read; start again");
  return for_display(picture, *said.parts.front().pictures);
}

}  // namespace dtrain
