#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/io/files/file_system.hpp"

namespace dtrain {

/// A folder that is held open. Paths that begin with path() lead into the folder that was opened, by openat(2) and its
/// kin, even if somebody has since moved it, removed it or put another one at its path: what is written lands in
/// that folder or nowhere. No symbolic link inside it is followed, on the way or at the end: such a call fails with
/// ELOOP. Paths outside fail with EXDEV; the folders above count as there, so that make_folders() can be given a path
/// inside.
///
/// Calls may be made from several threads at once.
class HeldFolder : public FileSystem {
 public:
  /// `path`: an existing folder; links on the way to it are followed once, here. Throws like throw_errno.
  explicit HeldFolder(std::string path);
  ~HeldFolder() override;
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Where the folder is now, as the kernel names it: path() made absolute, another name if it was moved, "" if it was
  /// removed or the kernel does not say.
  std::string place_now() const;

  int open(const std::string& path, int flags, unsigned mode) override;
  ssize_t read(int descriptor, std::span<std::byte> out) override;
  ssize_t read_at(int descriptor, int64_t offset, std::span<std::byte> out) override;
  int will_need(int descriptor, int64_t offset, int64_t bytes) override;
  ssize_t write(int descriptor, std::span<const std::byte> bytes) override;
  int sync(int descriptor) override;
  int sync_all(int descriptor) override;
  int close(int descriptor) override;
  int status(int descriptor, Status& out) override;
  int status(const std::string& path, bool follow_link, Status& out) override;
  int rename(const std::string& from, const std::string& to) override;
  int unlink(const std::string& path) override;
  int make_folder(const std::string& path, unsigned mode) override;
  int list(const std::string& folder, std::vector<std::string>& names) override;

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace dtrain
