#include "dtrain/io/records/record_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

RecordFile::RecordFile(std::string path, FileSystem& files) : path_(std::move(path)), files_(&files) {
  descriptor_ = open_to_read(path_, files);
  if (descriptor_ < 0 && descriptor_ != -ENXIO) throw_errno("open", path_, -std::exchange(descriptor_, -1));
  FileSystem::Status status;  // ENXIO: a socket
  const int failed = descriptor_ < 0 ? 0 : files.status(descriptor_, status);
  size_ = status.bytes;
  if (failed == 0 && status.is_file) return;
  if (const int open = std::exchange(descriptor_, -1); open >= 0) files.close(open);
  if (failed < 0) throw_errno("inspect", path_, -failed);
  throw DataError(path_ + " is not a regular file; a file of records is expected");
}

RecordFile::RecordFile(std::string path, std::vector<std::byte> bytes)
    : path_(std::move(path)), size_(static_cast<int64_t>(bytes.size())), own_(std::move(bytes)), bytes_(own_) {}

RecordFile::RecordFile(std::string path, GrowingMemory bytes)
    : path_(std::move(path)),
      size_(bytes.size()),
      unpacked_(std::move(bytes)),
      bytes_(std::as_const(unpacked_).bytes()) {}

RecordFile::RecordFile(RecordFile&& other) noexcept
    : path_(std::move(other.path_)),
      files_(other.files_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      own_(std::move(other.own_)),
      unpacked_(std::move(other.unpacked_)),
      bytes_(std::exchange(other.bytes_, {})) {}

RecordFile::~RecordFile() {
  if (descriptor_ >= 0) files_->close(descriptor_);
}

void RecordFile::read(int64_t offset, std::span<std::byte> out) const {
  check(offset >= 0 && offset <= size_ && static_cast<int64_t>(out.size()) <= size_ - offset,
        "a range that is read lies within its file");
  if (in_memory()) {
    std::copy_n(bytes_.begin() + offset, out.size(), out.begin());
    return;
  }
  while (!out.empty()) {
    const ssize_t got = files_->read_at(descriptor_, offset, out);
    if (got == -EINTR) continue;
    if (got < 0) throw_errno("read", path_, static_cast<int>(-got));
    if (got == 0)
      throw IoError(path_ + " ends at byte " + with_commas(offset) + ", but had " + with_commas(size_) +
                    " bytes when it was opened; it was cut meanwhile");
    offset += got;
    out = out.subspan(static_cast<size_t>(got));
  }
}

// Only a hint: errors are ignored here, since reading will report them.
void RecordFile::ask_ahead(int64_t offset, int64_t bytes) const {
  if (!in_memory()) files_->will_need(descriptor_, offset, bytes);
}

std::span<const std::byte> ByteWindow::at(int64_t offset, int64_t count) {
  constexpr int64_t kAhead = 8192;  // pictures are larger, their other fields smaller
  check(offset >= 0 && count >= 0 && offset <= size() && count <= size() - offset,
        "a range that is looked at lies within its file");
  const auto held = static_cast<int64_t>(buffer_.size());
  if (offset < begin_ || offset + count > begin_ + held) {
    buffer_.resize(static_cast<size_t>(std::min(std::max(count, kAhead), size() - offset)));
    begin_ = offset;
    file_.read(offset, buffer_);
  }
  return std::span<const std::byte>(buffer_).subspan(static_cast<size_t>(offset - begin_), static_cast<size_t>(count));
}

}  // namespace dtrain
