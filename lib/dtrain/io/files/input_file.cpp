#include "dtrain/io/files/input_file.hpp"

#include "dtrain/base/error.hpp"

namespace dtrain {

InputFile::InputFile(const std::string& path, FileSystem& files) : files_(files), path_(path) {
  descriptor_ = open_to_read(path, files);  // what it is, size() tells
  if (descriptor_ == -ENXIO) refuse();
  if (descriptor_ < 0) throw_errno("open", path, -descriptor_);
}

int64_t InputFile::size() const {
  FileSystem::Status status;
  if (const int failed = files_.status(descriptor_, status); failed < 0) throw_errno("inspect", path_, -failed);
  if (status.is_folder) throw DataError(path_ + " is a folder, not a file");
  if (!status.is_file) refuse();
  return status.bytes;
}

size_t InputFile::read(std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = repeated([&] { return files_.read(descriptor_, out.subspan(done)); });
    if (got < 0) throw_errno("read", path_, static_cast<int>(-got));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void InputFile::refuse() const { throw DataError(path_ + " is a pipe, a socket or a device, not a file"); }

}  // namespace dtrain
