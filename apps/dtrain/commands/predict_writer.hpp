#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "commands/predict_ensemble.hpp"
#include "commands/predict_output.hpp"
#include "dtrain/base/task.hpp"

namespace dtrain {

/// What is the same for every batch of a job that predicts.
struct Predicted {
  Task task = Task::multilabel;
  std::vector<std::string> classes;
  std::vector<int64_t> values;            ///< segmentation: PredictMember::pixel_values(); else empty
  std::optional<double> threshold = 0.5;  ///< of masks; nothing: called_classes() of classes that exclude each other
  std::vector<double> label_thresholds;   ///< of labels, one for each class; empty: no labels are called
  bool overlay = false;                   ///< outlines of the mask over the picture
  bool scores = false;                    ///< a picture of each class's probabilities
  bool cam = false;                       ///< class activation maps over the picture
  std::optional<size_t> cam_class;        ///< of this class; nothing: of the one with the highest score
  int64_t batch = 1;
  int64_t batches = 0;
};

/// First line of the table.
std::string head_of(const Predicted& job);

/// Names of the folders below scores/, one for each class: its name, with '_' for what file systems or viewers do not
/// allow in one, and its number behind it where two would be equal but for capitals.
std::vector<std::string> class_folders(const std::vector<std::string>& classes);

/// What is written for the picture of that path beside its row: files relative to the output's folder.
std::vector<std::string> pictures_of(const Predicted& job, const std::string& path);

/// Turns what networks say into rows of the table and pictures below the output's folder.
class PredictWriter {
 public:
  /// All of them outlive this. At most `threads` pictures are written at once, fewer if they are so large that half the
  /// host's free memory, of which this is one of `sharers` processes, has not so much room.
  PredictWriter(const Predicted& job, const PredictEnsemble& ensemble, PredictOutput& output, size_t threads,
                int64_t sharers);

  /// What a rank has to tell of one batch.
  struct Told {
    std::string rows;
    std::string unread;     ///< a line for each picture that could not be read
    std::string off_range;  ///< a line for each that is ListedPictures::Found::off_range, its path
  };
  /// Calls `progress` now and then while pictures are being finished.
  Told write(const PredictEnsemble::Said& said, const std::function<void()>& progress) const;

 private:
  size_t threads_for(const PredictEnsemble::Said& said) const;
  const Sample& sample(const PredictEnsemble::Said& said, size_t i) const;
  std::vector<double> numbers(const PredictEnsemble::Said& said, size_t i) const;
  std::vector<double> mask(const PredictEnsemble::Said& said, size_t i) const;
  std::vector<std::vector<float>> planes(const PredictEnsemble::Said& said, size_t i) const;
  void write_cam(const PredictEnsemble::Said& said, size_t i, const std::vector<double>& scores) const;
  Image display(const PredictEnsemble::Said& said, size_t i) const;

  const Predicted& job_;
  const PredictEnsemble& ensemble_;
  PredictOutput& output_;
  size_t threads_;
  int64_t sharers_;
  std::vector<std::string> folders_;
};

}  // namespace dtrain
