#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/study/report/model.hpp"
#include "support/temporary_folder.hpp"

namespace dtrain::test {

/// One epoch of a made-up run: seconds of an epoch, those of its parts, and the metric.
struct MadeEpoch {
  double compute_s = 8;
  double data_wait_s = 1;
  double allreduce_s = 1;
  double valid_s = 2;
  double iou = 0.5;
};

inline constexpr const char* kMadeHeader =
    "epoch,samples,train_loss,valid_loss,learning_rate,epoch_seconds,elapsed_s,images_per_s,data_wait_s,allreduce_s,"
    "valid_seconds,valid_iou,compute_s\n";

inline std::string made_epochs(const std::vector<MadeEpoch>& epochs) {
  std::string text = kMadeHeader;
  double elapsed = 0;
  for (size_t i = 0; i < epochs.size(); ++i) {
    const MadeEpoch& one = epochs[i];
    const double seconds = one.compute_s + one.data_wait_s + one.allreduce_s;
    elapsed += seconds + one.valid_s;
    std::vector<std::string> fields = {std::to_string(i + 1), "100"};
    for (const double value :
         {1.0 / static_cast<double>(i + 1), 2.0 / static_cast<double>(i + 1), 0.1, seconds, elapsed, 100 / seconds,
          one.data_wait_s, one.allreduce_s, one.valid_s, one.iou, one.compute_s})
      fields.push_back(shortest(value));
    text += join(fields, ",") + "\n";
  }
  return text;
}

/// A finished run's folder below `folder`.
inline std::string made_run(const TemporaryFolder& folder, const std::string& name, int64_t ranks,
                            const std::vector<MadeEpoch>& epochs, bool done = true) {
  const std::string path = folder / name;
  make_folders(path);
  std::string hosts;
  for (int64_t rank = 0; rank < ranks; ++rank)
    hosts += std::string(rank == 0 ? "" : ", ") + R"({"host": "n)" + std::to_string(rank / 2) + R"("})";
  write_file_atomically(path + "/run.json", R"({"ranks": )" + std::to_string(ranks) + R"(, "logical_ranks": )" +
                                                std::to_string(ranks) + R"(, "started": "2026-01-31T12:00:00Z",
      "versions": {"device": "cpu"}, "hosts": [)" +
                                                hosts + "]}");
  write_file_atomically(path + "/epochs.csv", made_epochs(epochs));
  if (done) write_file_atomically(path + "/DONE", "");
  return path;
}

}  // namespace dtrain::test
