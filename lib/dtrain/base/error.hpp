#pragma once
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// What the process returns, after sysexits.h where a code there fits. docs/errors.md explains each.
/// Codes 1 and 128–255 are left to mpirun and the shell.
namespace exit_code {
inline constexpr int kDone = 0;             ///< finished; the last checkpoint and metrics are on disk
inline constexpr int kUsage = 64;           ///< bad command line
inline constexpr int kBadData = 65;         ///< readable but wrong: decode, label, checksum, leak
inline constexpr int kMissingInput = 66;    ///< a named config, root, list, label, weights or picture file is absent
inline constexpr int kPeerFailed = 69;      ///< a peer or the network failed
inline constexpr int kInternal = 70;        ///< our bug
inline constexpr int kOutOfMemory = 71;     ///< host or device
inline constexpr int kIo = 74;              ///< the newest checkpoint could not be saved, an older one is intact
inline constexpr int kStopped = 75;         ///< stopped by a signal, checkpoint saved; start again to continue
inline constexpr int kStalled = 76;         ///< a wait passed its limit
inline constexpr int kPermission = 77;      ///< permission refused
inline constexpr int kConfig = 78;          ///< bad configuration, or ranks disagree on it
inline constexpr int kDiverged = 79;        ///< NaN or Inf, agreed by all ranks
inline constexpr int kReplicasDiffer = 80;  ///< replicas out of step
}  // namespace exit_code

/// Every error that library code throws. `what()` is one sentence for the user: what happened, to which file, line,
/// key or record, and what to do. Only `main` turns it into an exit code.
class Error : public std::runtime_error {
 public:
  Error(int code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// The user's errors.
struct UsageError : Error {
  explicit UsageError(const std::string& sentence) : Error(exit_code::kUsage, sentence) {}
};
struct ConfigError : Error {
  explicit ConfigError(const std::string& sentence) : Error(exit_code::kConfig, sentence) {}
};
struct DataError : Error {
  explicit DataError(const std::string& sentence) : Error(exit_code::kBadData, sentence) {}
};
struct MissingError : Error {
  explicit MissingError(const std::string& sentence) : Error(exit_code::kMissingInput, sentence) {}
};
struct PermissionError : Error {
  explicit PermissionError(const std::string& sentence) : Error(exit_code::kPermission, sentence) {}
};
/// A number became NaN or Inf; all ranks throw it at the same step.
struct DivergedError : Error {
  explicit DivergedError(const std::string& sentence) : Error(exit_code::kDiverged, sentence) {}
};

// The machine's errors.
struct IoError : Error {
  explicit IoError(const std::string& sentence) : Error(exit_code::kIo, sentence) {}
};
struct CommError : Error {
  explicit CommError(const std::string& sentence) : Error(exit_code::kPeerFailed, sentence) {}
};
/// A GPU failed on correct work.
struct DeviceError : Error {
  explicit DeviceError(const std::string& sentence) : Error(exit_code::kPeerFailed, sentence) {}
};

/// Ours: an internal check failed.
struct InternalError : Error {
  explicit InternalError(const std::string& sentence) : Error(exit_code::kInternal, sentence) {}
};

/// Throws InternalError with file and line unless `holds`.
void check(bool holds, std::string_view promise, std::source_location where = std::source_location::current());

/// The error of a failed system call on `path`: MissingError for ENOENT/ENOTDIR, PermissionError for
/// EACCES/EPERM/EROFS, code 71 for ENOMEM, IoError else (ELOOP: a link that is not followed). `doing`: "open".
[[noreturn]] void throw_errno(const std::string& doing, const std::string& path, int error_number);

/// Several errors found at once, joined to one sentence per line; the code is the first of 64, 78, 66, 77, 65 present.
/// Precondition: not empty.
Error merge_errors(const std::vector<Error>& errors);

}  // namespace dtrain
