#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain {

/// A picture that consists of several files, one for each channel, whose names differ only in what they end in before
/// the ending of their format: CASE_0000.png and CASE_0001.png for the endings _0000 and _0001 (data.image.files). The
/// first file names the picture. In stacks the pages belong together: CASE_0000.tif#7 and CASE_0001.tif#7.
class ChannelFiles {
 public:
  static constexpr int64_t kNone = -1;

  /// `endings`: in the order of the channels, each once. None: a picture is one file, of any name.
  explicit ChannelFiles(std::vector<std::string> endings) : endings_(std::move(endings)) {}

  bool several() const { return !endings_.empty(); }
  size_t count() const { return endings_.size(); }
  /// The channel whose ending, the longest that fits, the file of this name has; kNone.
  int64_t channel_of(const std::string& path) const;
  /// The file of `channel`, of the picture that the file `path` of another channel belongs to.
  std::string sibling(const std::string& path, size_t channel) const;
  /// What the first file of a picture adds to the picture's own name: masks are named without it.
  std::string first_ending() const { return endings_.empty() ? "" : endings_.front(); }
  /// "[_0000, _0001]"
  std::string text() const;

 private:
  std::vector<std::string> endings_;
};

/// What a list of files holds of such pictures.
struct ChannelList {
  std::vector<std::string> pictures;  ///< the first file of each, in the order of the list
  std::vector<std::string> missing;   ///< "b_0001.png, beside b_0000.png": files that a picture lacks
  std::vector<std::string> others;    ///< files with none of the endings
};

/// `files`: names as they are in the same folder, or relative to the same.
ChannelList channel_list(const ChannelFiles& channels, const std::vector<std::string>& files);

}  // namespace dtrain
