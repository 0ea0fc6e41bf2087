#include "dtrain/io/files/held_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

namespace {

int or_errno(int result) { return result < 0 ? -errno : result; }

/// The folder that holds the last name of a path, open as long as this object exists.
class Place {
 public:
  /// `held` is the folder `root`; `path` leads into it or is `root` itself, whose name is then ".".
  Place(int held, const std::string& root, const std::string& path) : folder_(held) {
    if (path == root) {
      name_ = ".";
      return;
    }
    if (!path.starts_with(root + "/")) {
      error_ = -EXDEV;
      return;
    }
    const std::vector<std::string> names = split_text(path.substr(root.size() + 1), '/');
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i].empty() || names[i] == "." || names[i] == "..") {
        error_ = -EXDEV;
        return;
      }
      name_ = names[i];
      if (i + 1 < names.size() && !enter()) return;
    }
  }
  ~Place() {
    if (own_) ::close(folder_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  int error() const { return error_; }  ///< -errno; 0: the folder is open
  int folder() const { return folder_; }
  const char* name() const { return name_.c_str(); }

 private:
  bool enter() {
    const int next = ::openat(folder_, name_.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    error_ = next < 0 ? -errno : 0;
    struct stat found {};
    if (next < 0 && ::fstatat(folder_, name_.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode))
      error_ = -ELOOP;
    if (own_ && next >= 0) ::close(folder_);
    if (next < 0) return false;
    folder_ = next;
    own_ = true;
    return true;
  }

  int folder_;
  bool own_ = false;
  std::string name_;
  int error_ = 0;
};

}  // namespace

HeldFolder::HeldFolder(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A folder that may be entered and written, but not listed.
  if (descriptor_ < 0 && errno == EACCES) descriptor_ = ::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) throw_errno("open", path_, errno);
}

HeldFolder::~HeldFolder() { ::close(descriptor_); }

std::string HeldFolder::place_now() const {
  std::array<char, 4096> link{};
  const std::string self = "/proc/self/fd/" + std::to_string(descriptor_);
  const ssize_t count = ::readlink(self.c_str(), link.data(), link.size());
  const std::string place(link.data(), count > 0 && count < static_cast<ssize_t>(link.size()) ? count : 0);
  return place.ends_with(" (deleted)") ? "" : place;
}

int HeldFolder::open(const std::string& path, int flags, unsigned mode) {
  const Place place(descriptor_, path_, path);
  if (place.error() != 0) return place.error();
  return or_errno(::openat(place.folder(), place.name(), flags | O_NOFOLLOW, mode));
}

int HeldFolder::status(const std::string& path, bool /*follow_link*/, Status& out) {
  if (path_.starts_with(path + "/") || path == "/") {
    out = {};
    out.is_folder = true;
    return 0;
  }
  const Place place(descriptor_, path_, path);
  if (place.error() != 0) return place.error();
  struct stat found {};
  if (::fstatat(place.folder(), place.name(), &found, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
  out = status_of(found);
  return 0;
}

int HeldFolder::rename(const std::string& from, const std::string& to) {
  const Place source(descriptor_, path_, from);
  const Place target(descriptor_, path_, to);
  if (source.error() != 0) return source.error();
  if (target.error() != 0) return target.error();
  return or_errno(::renameat(source.folder(), source.name(), target.folder(), target.name()));
}

int HeldFolder::unlink(const std::string& path) {
  const Place place(descriptor_, path_, path);
  if (place.error() != 0) return place.error();
  return or_errno(::unlinkat(place.folder(), place.name(), 0));
}

int HeldFolder::make_folder(const std::string& path, unsigned mode) {
  const Place place(descriptor_, path_, path);
  if (place.error() != 0) return place.error();
  return or_errno(::mkdirat(place.folder(), place.name(), mode));
}

int HeldFolder::list(const std::string& folder, std::vector<std::string>& names) {
  const int opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (opened < 0) return opened;
  return list_open_folder(opened, names);
}

// Calls on descriptors go to the kernel's file system.
ssize_t HeldFolder::read(int descriptor, std::span<std::byte> out) { return real_file_system().read(descriptor, out); }
ssize_t HeldFolder::read_at(int descriptor, int64_t offset, std::span<std::byte> out) {
  return real_file_system().read_at(descriptor, offset, out);
}
int HeldFolder::will_need(int descriptor, int64_t offset, int64_t bytes) {
  return real_file_system().will_need(descriptor, offset, bytes);
}
ssize_t HeldFolder::write(int descriptor, std::span<const std::byte> bytes) {
  return real_file_system().write(descriptor, bytes);
}
int HeldFolder::sync(int descriptor) { return real_file_system().sync(descriptor); }
int HeldFolder::sync_all(int descriptor) { return real_file_system().sync_all(descriptor); }
int HeldFolder::close(int descriptor) { return real_file_system().close(descriptor); }
int HeldFolder::status(int descriptor, Status& out) { return real_file_system().status(descriptor, out); }

}  // namespace dtrain
