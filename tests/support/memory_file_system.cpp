#include "support/memory_file_system.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

namespace dtrain::test {

MemoryFileSystem::MemoryFileSystem(const DiskImage& image) : MemoryFileSystem() {
  for (const auto& [path, bytes] : image) {
    int folder = 0;
    size_t begin = 1;
    for (size_t slash = path.find('/', begin); slash != std::string::npos; slash = path.find('/', begin)) {
      const std::string name = path.substr(begin, slash - begin);
      const auto found = inodes_[static_cast<size_t>(folder)].entries.find(name);
      const bool is_new = found == inodes_[static_cast<size_t>(folder)].entries.end();
      const int next = is_new ? add(true) : found->second;
      inodes_[static_cast<size_t>(folder)].entries[name] = next;
      folder = next;
      begin = slash + 1;
    }
    if (begin == path.size()) continue;  // "/a/" is an empty folder
    const int file = add(false);
    inodes_[static_cast<size_t>(file)].bytes = inodes_[static_cast<size_t>(file)].durable = bytes;
    inodes_[static_cast<size_t>(folder)].entries[path.substr(begin)] = file;
  }
  for (Inode& inode : inodes_) inode.durable_entries = inode.entries;
}

int MemoryFileSystem::add(bool is_folder) {
  inodes_.emplace_back().is_folder = is_folder;
  return static_cast<int>(inodes_.size()) - 1;
}

// 0, or the error with which the call must fail at once. `late`: it must fail after its work.
int MemoryFileSystem::begin(const char* call, bool& late) {
  late = false;
  if (dead_) return -EIO;
  if (before_call) before_call();
  ++calls_;
  const bool now = fault_.kind != Fault::Kind::none && (calls_ == fault_.at || (fault_.stays && calls_ > fault_.at));
  if (!now) return 0;
  called_ = call;
  hit_ = true;
  if (fault_.kind == Fault::Kind::kill) {
    dead_ = true;
    return -EIO;
  }
  late = fault_.kind == Fault::Kind::late_error || (fault_.kind == Fault::Kind::short_write && called_ == "write");
  return fault_.kind == Fault::Kind::error ? -fault_.error_number : 0;
}

int MemoryFileSystem::parent_of(const std::string& path, std::string& name) const {
  int folder = 0;
  size_t begin = 1;
  for (size_t slash = path.find('/', begin); slash != std::string::npos; slash = path.find('/', begin)) {
    const Entries& entries = inodes_[static_cast<size_t>(folder)].entries;
    const auto found = entries.find(path.substr(begin, slash - begin));
    if (found == entries.end()) return kNone;
    folder = found->second;
    begin = slash + 1;
  }
  name = path.substr(begin);
  return folder;
}

int MemoryFileSystem::find(const std::string& path) const {
  if (path == "/") return 0;
  std::string name;
  const int folder = parent_of(path, name);
  if (folder == kNone) return kNone;
  const Entries& entries = inodes_[static_cast<size_t>(folder)].entries;
  const auto found = entries.find(name);
  return found == entries.end() ? kNone : found->second;
}

void MemoryFileSystem::change(int folder, const std::string& name, int inode) {
  Entries& entries = inodes_[static_cast<size_t>(folder)].entries;
  if (inode == kNone)
    entries.erase(name);
  else
    entries[name] = inode;
  changes_.push_back({folder, name, inode});
}

void MemoryFileSystem::tell(int inode, Status& out) const {
  const Inode& found = inodes_[static_cast<size_t>(inode)];
  out = {found.is_folder, !found.is_folder, static_cast<int64_t>(found.bytes.size()), 1, static_cast<uint64_t>(inode)};
}

int MemoryFileSystem::open(const std::string& path, int flags, unsigned) {
  bool late = false;
  if (const int failed = begin("open", late); failed < 0) return failed;
  std::string name;
  const int folder = path == "/" ? 0 : parent_of(path, name);
  if (folder == kNone) return -ENOENT;
  int inode = find(path);
  if (inode != kNone && (flags & O_EXCL) != 0) return -EEXIST;
  if (inode == kNone) {
    if ((flags & O_CREAT) == 0) return -ENOENT;
    inode = add(false);
    change(folder, name, inode);
  }
  if (late) return -fault_.error_number;
  open_[next_descriptor_] = {inode, 0, (flags & O_ACCMODE) != O_RDONLY};
  return next_descriptor_++;
}

bool MemoryFileSystem::names_folder(const Change& change) const {
  return change.inode != kNone && inodes_[static_cast<size_t>(change.inode)].is_folder;
}

ssize_t MemoryFileSystem::read(int descriptor, std::span<std::byte> out) {
  bool late = false;
  if (const int failed = begin("read", late); failed < 0) return failed;
  if (late) return -fault_.error_number;
  Open& open = open_.at(descriptor);
  const std::string& bytes = inodes_[static_cast<size_t>(open.inode)].bytes;
  const size_t count = std::min(out.size(), bytes.size() - std::min(open.at, bytes.size()));
  std::memcpy(out.data(), bytes.data() + open.at, count);
  open.at += count;
  return static_cast<ssize_t>(count);
}

ssize_t MemoryFileSystem::read_at(int descriptor, int64_t offset, std::span<std::byte> out) {
  bool late = false;
  if (const int failed = begin("read_at", late); failed < 0) return failed;
  if (late) return -fault_.error_number;
  const std::string& bytes = inodes_[static_cast<size_t>(open_.at(descriptor).inode)].bytes;
  const size_t at = std::min(static_cast<size_t>(offset), bytes.size());
  const size_t count = std::min(out.size(), bytes.size() - at);
  std::memcpy(out.data(), bytes.data() + at, count);
  return static_cast<ssize_t>(count);
}

ssize_t MemoryFileSystem::write(int descriptor, std::span<const std::byte> bytes) {
  bool late = false;
  if (const int failed = begin("write", late); failed < 0) return failed;
  Open& open = open_.at(descriptor);
  Inode& inode = inodes_[static_cast<size_t>(open.inode)];
  if (inode.in_doubt) violations.emplace_back("a write to a file whose sync has failed");
  const size_t count = late && fault_.kind == Fault::Kind::short_write ? (bytes.size() + 1) / 2 : bytes.size();
  inode.last_write = inode.bytes.size();
  inode.bytes.append(reinterpret_cast<const char*>(bytes.data()), count);
  inode.dirty = true;
  return late && fault_.kind == Fault::Kind::late_error ? -fault_.error_number : static_cast<ssize_t>(count);
}

int MemoryFileSystem::sync(int descriptor) {
  bool late = false;
  const int failed = begin("sync", late);
  if (dead_) return failed;
  const int number = open_.at(descriptor).inode;
  if (failed < 0 || late) {
    sync_failed(number);
    return failed < 0 ? failed : -fault_.error_number;
  }
  settle(number);
  return 0;
}

int MemoryFileSystem::sync_all(int /*descriptor*/) {
  bool late = false;
  const int failed = begin("sync_all", late);
  if (dead_) return failed;
  for (int number = 0; number < static_cast<int>(inodes_.size()); ++number) {
    if (failed == 0 && !late)
      settle(number);
    else if (inodes_[static_cast<size_t>(number)].dirty)
      sync_failed(number);
  }
  if (failed < 0) return failed;
  return late ? -fault_.error_number : 0;
}

void MemoryFileSystem::sync_failed(int number) {
  inodes_[static_cast<size_t>(number)].in_doubt = true;
  for (Change& change : changes_)
    if (change.folder == number && !names_folder(change)) change.in_doubt = true;
}

void MemoryFileSystem::settle(int number) {
  Inode& inode = inodes_[static_cast<size_t>(number)];
  if (!inode.is_folder) {
    if (inode.in_doubt) violations.emplace_back("a second sync of a file whose sync has failed");
    if (inode.in_doubt) return;
    inode.durable = inode.bytes;
    inode.dirty = false;
    return;
  }
  std::set<std::string> settled;
  for (const Change& change : changes_) {
    if (change.folder != number || change.in_doubt) continue;
    settled.insert(change.name);
    if (change.inode == kNone)
      inode.durable_entries.erase(change.name);
    else
      inode.durable_entries[change.name] = change.inode;
  }
  std::erase_if(changes_, [&](const Change& change) {
    return change.folder == number && (!change.in_doubt || settled.contains(change.name));
  });
}

int MemoryFileSystem::close(int descriptor) {
  open_.erase(descriptor);  // whatever close() returns, as on Linux
  bool late = false;
  const int failed = begin("close", late);
  return late ? -fault_.error_number : failed;
}

int MemoryFileSystem::status(int descriptor, Status& out) {
  bool late = false;
  if (const int failed = begin("status", late); failed < 0) return failed;
  tell(open_.at(descriptor).inode, out);
  return 0;
}

int MemoryFileSystem::status(const std::string& path, bool, Status& out) {
  bool late = false;
  if (const int failed = begin("status", late); failed < 0) return failed;
  const int inode = find(path);
  if (inode == kNone) return -ENOENT;
  tell(inode, out);
  return 0;
}

int MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  bool late = false;
  if (const int failed = begin("rename", late); failed < 0) return failed;
  const int inode = find(from);
  std::string old_name;
  std::string new_name;
  const int old_folder = parent_of(from, old_name);
  const int new_folder = parent_of(to, new_name);
  if (inode == kNone || new_folder == kNone) return -ENOENT;
  if (inodes_[static_cast<size_t>(inode)].in_doubt)
    violations.emplace_back("a file whose sync has failed is published");
  change(new_folder, new_name, inode);
  change(old_folder, old_name, kNone);
  return late ? -fault_.error_number : 0;
}

int MemoryFileSystem::unlink(const std::string& path) {
  bool late = false;
  if (const int failed = begin("unlink", late); failed < 0) return failed;
  if (find(path) == kNone) return -ENOENT;
  std::string name;
  const int folder = parent_of(path, name);
  change(folder, name, kNone);
  return late ? -fault_.error_number : 0;
}

int MemoryFileSystem::make_folder(const std::string& path, unsigned) {
  bool late = false;
  if (const int failed = begin("mkdir", late); failed < 0) return failed;
  if (find(path) != kNone) return -EEXIST;
  std::string name;
  const int folder = parent_of(path, name);
  if (folder == kNone) return -ENOENT;
  change(folder, name, add(true));
  return late ? -fault_.error_number : 0;
}

int MemoryFileSystem::list(const std::string& folder, std::vector<std::string>& names) {
  bool late = false;
  if (const int failed = begin("list", late); failed < 0) return failed;
  const int inode = find(folder);
  if (inode == kNone) return -ENOENT;
  for (const auto& [name, entry] : inodes_[static_cast<size_t>(inode)].entries) names.push_back(name);
  return late ? -fault_.error_number : 0;
}

// The files in `folder` and below by path; an empty folder is "/a/".
void MemoryFileSystem::lay_out(const std::vector<Entries>& folders, int folder, const std::string& path,
                               std::vector<std::pair<std::string, int>>& files) const {
  const Entries& entries = folders[static_cast<size_t>(folder)];
  if (entries.empty()) files.emplace_back(path, kNone);
  for (const auto& [name, inode] : entries) {
    if (inodes_[static_cast<size_t>(inode)].is_folder)
      lay_out(folders, inode, path + name + "/", files);
    else
      files.emplace_back(path + name, inode);
  }
}

DiskImage MemoryFileSystem::image() const {
  std::vector<Entries> folders;
  for (const Inode& inode : inodes_) folders.push_back(inode.entries);
  std::vector<std::pair<std::string, int>> files;
  lay_out(folders, 0, "/", files);
  DiskImage image;
  for (const auto& [path, inode] : files) image[path] = inode == kNone ? "" : inodes_[static_cast<size_t>(inode)].bytes;
  return image;
}

// What may be found in a file that was not synced: what was synced before; everything; a part; everything but the last
// write; only the length (zeros); only the last write, over zeros.
std::vector<std::string> MemoryFileSystem::contents_after_cut(const Inode& inode) const {
  if (!inode.dirty) return {inode.bytes};
  const size_t size = inode.bytes.size();
  std::string last_alone(inode.last_write, '\0');
  last_alone += inode.bytes.substr(inode.last_write);
  std::vector<std::string> all = {inode.durable,
                                  inode.bytes,
                                  inode.bytes.substr(0, size / 2),
                                  inode.bytes.substr(0, inode.last_write),
                                  inode.bytes.substr(0, inode.last_write) + std::string(size - inode.last_write, '\0'),
                                  std::string(size, '\0'),
                                  last_alone};
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

int64_t MemoryFileSystem::power_cuts(int64_t most, const std::function<void(const DiskImage&)>& see) const {
  const size_t changes = std::min<size_t>(changes_.size(), 24);
  const auto subsets = int64_t{1} << changes;
  std::vector<std::vector<std::string>> contents;
  for (const Inode& inode : inodes_) contents.push_back(contents_after_cut(inode));
  int64_t seen = 0;
  const int64_t stride = std::max<int64_t>(1, subsets / most) | 1;  // odd: reaches all of them in time
  for (int64_t step = 0; step < std::min(subsets, most); ++step) {
    const int64_t subset = stride * step % subsets;
    std::vector<Entries> folders;
    for (const Inode& inode : inodes_) folders.push_back(inode.durable_entries);
    for (size_t i = 0; i < changes_.size(); ++i) {  // those beyond 24 are the newest: not on the disk yet
      if (i >= changes || (subset >> i & 1) == 0) continue;
      Entries& entries = folders[static_cast<size_t>(changes_[i].folder)];
      if (changes_[i].inode == kNone)
        entries.erase(changes_[i].name);
      else
        entries[changes_[i].name] = changes_[i].inode;
    }
    std::vector<std::pair<std::string, int>> files;
    lay_out(folders, 0, "/", files);
    size_t variants = 1;  // of the file with the most; the others vary with it
    for (const auto& [path, inode] : files)
      if (inode != kNone) variants = std::max(variants, contents[static_cast<size_t>(inode)].size());
    for (size_t variant = 0; variant < variants; ++variant) {
      DiskImage image;
      for (const auto& [path, inode] : files) {
        if (inode == kNone) {
          image[path] = "";
          continue;
        }
        const auto& choice = contents[static_cast<size_t>(inode)];
        image[path] = choice[variant % choice.size()];
      }
      see(image);
      ++seen;
    }
  }
  return seen;
}

}  // namespace dtrain::test
