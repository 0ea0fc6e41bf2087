#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/io/files/file.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "dtrain/runlog/run_lock.hpp"

namespace dtrain {

/// The folder that dtrain predict writes: predict.json says what it is made of and how far it is, so that a start that
/// was killed goes on from there, by whole batches; predictions.csv is there once it is finished.
class PredictOutput {
 public:
  /// All that the bytes of its files depend on, as name and value.
  using Facts = std::vector<std::pair<std::string, std::string>>;
  struct Parts {
    std::string folder;
    Facts facts;
    std::string head;  ///< first line of the table
    int64_t batches = 0;
    int64_t batch = 1;  ///< pictures in each
    /// The files that are written for the picture of a row, relative to the folder.
    std::function<std::vector<std::string>(const std::string& path)> pictures;
  };
  explicit PredictOutput(Parts parts) : parts_(std::move(parts)) {}

  /// How far it is: the first `batches` batches are written, with all their pictures.
  struct Standing {
    int64_t batches = 0;
    int64_t rows_bytes = 0;  ///< of the table
    int64_t bad = 0;         ///< pictures among them that could not be read
    bool complete = false;
  };

  /// On rank 0, before the others write: makes the folder, or finds out how far an earlier start came. From here on it
  /// is locked (RunLock) as long as this object lives. Throws UsageError for a file, and for a folder that is neither
  /// empty nor of predict; ConfigError where another process has it, or naming what differs from the start that it is
  /// of; like throw_errno.
  void take();
  /// False where the file system has no locks.
  bool locked() const { return lock_ && lock_->held(); }
  /// On rank 0: adds the rows of the next batches, of which so many pictures could not be read, and whose masks every
  /// rank has settled.
  void add(const std::string& rows, int64_t batches, int64_t bad);
  /// On rank 0, when all batches are added.
  void finish();
  const Standing& standing() const { return standing_; }
  /// Of a finished table: the paths of the first so many pictures that could not be read.
  std::vector<std::string> unread(size_t most) const;

  std::string table() const { return parts_.folder + "/predictions.csv"; }
  /// Writes a PNG below the folder `kind` of the output ("masks"), whole or not at all. Several threads may call it, on
  /// any rank.
  void write_picture(const std::string& kind, const std::string& stem, const Image& picture);
  /// On each rank: after it returns the pictures that this rank has written survive a power cut.
  void settle() { unsettled_.settle(); }

 private:
  void require_ours() const;
  bool resume();
  void back_to_whole_batches(const std::string& rows);
  void begin();
  void write_standing() const;
  std::string part() const { return table() + ".part"; }
  std::string description() const { return parts_.folder + "/predict.json"; }

  Parts parts_;
  FileBatch unsettled_;
  std::unique_ptr<RunLock> lock_;
  Standing standing_;
};

/// Throws UsageError where `output` is the folder `input`, or one that holds it.
void require_apart(const std::string& input, const std::string& output);

}  // namespace dtrain
