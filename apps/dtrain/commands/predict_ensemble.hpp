#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands/predict_member.hpp"
#include "dtrain/base/trace.hpp"
#include "dtrain/data/batches/device_batches.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/formats/picture_input.hpp"

namespace dtrain {

/// The networks that predict together, all of them loaded, with the pictures as each wants to see them. Networks that
/// want the same pictures share a loader.
class PredictEnsemble {
 public:
  /// `members`: at least one. Throws DataError for one whose task, classes or pixel values of masks are not those of
  /// the first, UsageError for weights that are there twice. `job` outlives this.
  PredictEnsemble(std::vector<std::unique_ptr<PredictMember>> members, Job& job);
  PredictEnsemble(const PredictEnsemble&) = delete;
  PredictEnsemble& operator=(const PredictEnsemble&) = delete;

  /// The first, which decides where the command line says nothing: batch, pixel values of masks.
  const PredictMember& first() const { return *members_.front(); }
  const std::vector<std::unique_ptr<PredictMember>>& members() const { return members_; }

  /// Finds the pictures of `input`, as open_pictures() does, once for each way in which members want to see them, and
  /// tells people its notes. Throws DataError where they change meanwhile.
  void open(const std::string& input, const std::string& column, const std::string& left_out);
  const Dataset& dataset() const { return views_.front()->input.dataset; }
  /// PictureInput::stamps_sha256.
  const std::string& stamps_sha256() const { return views_.front()->input.stamps_sha256; }
  /// The picture of sample `index`, decoded once more; black if it cannot be read any longer. Several threads may call
  /// it.
  Image picture(int64_t index) const;

  /// Begins to load these batches.
  void start(const std::vector<BatchRequest>& requests);
  /// What the networks say of the pictures of a batch.
  struct Said {
    std::vector<int64_t> samples;
    std::vector<ListedPictures::Found> found;  ///< of each
    /// The sum over the members that want to see the pictures so.
    struct Part {
      const ImageOptions* pictures = nullptr;
      at::Tensor probabilities;      ///< as PredictMember::Said has them
      std::vector<at::Tensor> maps;  ///< of each of them
    };
    std::vector<Part> parts;
  };
  /// Of the next batch, whose number is `number`; nothing after the last. Throws DivergedError where a number is not
  /// finite.
  std::optional<Said> next(int64_t number);

 private:
  /// Pictures as some of the members want them.
  struct View {
    std::vector<PredictMember*> members;
    PictureInput input;
    std::unique_ptr<Loader> loader;
    std::unique_ptr<DeviceBatches> batches;
  };
  void require_alike() const;
  void open_view(View& view, const std::string& input, const std::string& column, const std::string& left_out);
  Said::Part say(const View& view, const Batch& batch, int64_t number) const;

  std::vector<std::unique_ptr<PredictMember>> members_;
  std::vector<std::unique_ptr<View>> views_;
  Job& job_;
  Trace untraced_{false};
};

}  // namespace dtrain
