#include "dtrain/base/module_file.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/base/error.hpp"

namespace dtrain {

namespace {

namespace fs = std::filesystem;

struct Place {
  fs::path prefix;
  std::vector<std::string> steps;  // from `prefix` on: folders, then the file

  std::string path() const {
    fs::path all = prefix;
    for (const std::string& step : steps) all /= step;
    return all.string();
  }
};

/// The folder of a program; works for the kernel's link to it even if the file has been removed since.
fs::path folder_of(const std::string& program) {
  std::error_code failed;
  const fs::path file = fs::is_symlink(program) ? fs::read_symlink(program) : fs::path(program);
  return fs::canonical(file.parent_path(), failed);
}

std::vector<Place> places(const std::string& name, const std::string& program) {
  const fs::path folder = folder_of(program);
  std::vector<Place> found = {{folder, {name}}};
  for (const char* layout : {"bin", "libexec/dtrain", "share/dtrain/tests"}) {
    fs::path above = folder;
    fs::path below = layout;
    for (; !below.empty() && above.filename() == below.filename(); below = below.parent_path())
      above = above.parent_path();
    if (below.empty()) found.push_back({above, {"lib", name}});
  }
  return found;
}

bool is_there(const Place& place) { return fs::exists(fs::symlink_status(place.path())); }

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  int keep() { return std::exchange(number_, -1); }
  void replace(int number) {
    if (number_ >= 0) ::close(number_);
    number_ = number;
  }

 private:
  int number_;
};

struct stat facts_of(int descriptor, const std::string& path) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) throw_errno("look at", path, errno);
  return facts;
}

/// Checks that nobody but root, this user and the program's owner, or a group that may replace the program too, could
/// have put a module there.
class Trust {
 public:
  explicit Trust(const std::string& program) {
    if (::stat(program.c_str(), &program_) != 0) throw_errno("look at", program, errno);
    const std::string folder = folder_of(program).string();
    if (::stat(folder.c_str(), &folder_) != 0) throw_errno("look at", folder, errno);
  }

  void require(const struct stat& facts, const std::string& path) const {
    const std::string why = objection(facts);
    if (!why.empty())
      throw PermissionError(path + " " + why +
                            ", so somebody else could have put a module there: it is not loaded; remove it, or correct "
                            "owner and permissions of the folder that dtrain is in");
  }

 private:
  std::string objection(const struct stat& facts) const {
    if (facts.st_uid != 0 && facts.st_uid != ::geteuid() && facts.st_uid != program_.st_uid)
      return "belongs to user " + std::to_string(facts.st_uid);
    const bool sticky = S_ISDIR(facts.st_mode) && (facts.st_mode & S_ISVTX) != 0;
    if (!sticky && (facts.st_mode & S_IWOTH) != 0) return "may be written by everybody";
    const bool may_replace_program = (folder_.st_mode & S_IWGRP) != 0 && facts.st_gid == folder_.st_gid;
    if (!sticky && (facts.st_mode & S_IWGRP) != 0 && !may_replace_program)
      return "may be written by group " + std::to_string(facts.st_gid);
    return "";
  }

  struct stat program_ {};
  struct stat folder_ {};
};

/// Opens the file once every folder on the way to it, and the file itself, was found safe.
int open_trusted(const Place& place, const Trust& trust) {
  fs::path path = place.prefix;
  Descriptor at(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (at.number() < 0) throw_errno("open", path.string(), errno);
  trust.require(facts_of(at.number(), path.string()), path.string());
  for (const std::string& step : place.steps) {
    path /= step;
    const bool last = &step == &place.steps.back();
    const int kind = last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY;
    const int next = ::openat(at.number(), step.c_str(), kind | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 && (errno == ELOOP || errno == ENOTDIR))
      throw PermissionError(path.string() + " is a link or not a folder: no module is loaded from there");
    if (next < 0) throw_errno("open", path.string(), errno);
    at.replace(next);
    const struct stat facts = facts_of(next, path.string());
    if (last && !S_ISREG(facts.st_mode))
      throw PermissionError(path.string() + " is not a plain file: it is not loaded");
    trust.require(facts, path.string());
  }
  return at.keep();
}

/// All `size` bytes from offset `place` on, or none, also if `size` is above `most`.
std::vector<char> bytes_at(int file, uint64_t place, uint64_t size, uint64_t most) {
  std::vector<char> bytes(std::min(size, most));
  if (size > most || place > INT64_MAX - most) return {};
  const ssize_t got = ::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(place));
  if (got != static_cast<ssize_t>(size)) bytes.clear();
  return bytes;
}

/// Whether the file holds every byte that this segment is mapped from: a truncated one would end the process by SIGBUS
/// as soon as it touches the missing part.
bool is_whole(int file, const Elf64_Phdr& segment) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0) return false;
  const auto size = static_cast<uint64_t>(facts.st_size);
  return segment.p_offset <= size && segment.p_filesz <= size - segment.p_offset;
}

/// The stamp among the notes of a segment. Each note is three numbers, a name and a text, both padded to 4 bytes.
std::string stamp_among(std::string_view notes) {
  const auto padded = [](uint32_t size) { return (uint64_t{size} + 3) / 4 * 4; };
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note{};
    std::memcpy(&note, notes.data(), sizeof note);
    notes.remove_prefix(sizeof note);
    const uint64_t size = padded(note.n_namesz) + padded(note.n_descsz);
    if (size > notes.size()) return "";
    const std::string_view name = notes.substr(0, note.n_namesz);
    const std::string_view text = notes.substr(padded(note.n_namesz), note.n_descsz);
    if (name == std::string_view("dtrain\0", 7)) return std::string(text.substr(0, text.find('\0')));
    notes.remove_prefix(size);
  }
  return "";
}

}  // namespace

std::string stamp_of_module(int file) {
  const std::vector<char> start = bytes_at(file, 0, sizeof(Elf64_Ehdr), sizeof(Elf64_Ehdr));
  if (start.empty() || std::memcmp(start.data(), ELFMAG, SELFMAG) != 0 || start[EI_CLASS] != ELFCLASS64) return "";
  Elf64_Ehdr header{};
  std::memcpy(&header, start.data(), sizeof header);
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return "";
  constexpr uint64_t kMost = 1 << 16;  // bytes, for the table and for the notes of one segment
  const std::vector<char> table = bytes_at(file, header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr), kMost);
  std::string stamp;
  for (size_t at = 0; at + sizeof(Elf64_Phdr) <= table.size(); at += sizeof(Elf64_Phdr)) {
    Elf64_Phdr segment{};
    std::memcpy(&segment, table.data() + at, sizeof segment);
    if (segment.p_type == PT_LOAD && !is_whole(file, segment)) return "";
    if (segment.p_type != PT_NOTE || !stamp.empty()) continue;
    const std::vector<char> notes = bytes_at(file, segment.p_offset, segment.p_filesz, kMost);
    stamp = stamp_among({notes.data(), notes.size()});
  }
  return stamp;
}

std::string module_path(const std::string& name, const std::string& program) {
  for (const Place& place : places(name, program))
    if (is_there(place)) return place.path();
  return "";
}

void* load_module(const std::string& name, const std::string& stamp, const std::string& program) {
  const std::vector<Place> all = places(name, program);
  const auto place = std::find_if(all.begin(), all.end(), is_there);
  if (place == all.end()) throw MissingError(name + " is neither beside the program nor in lib/ of its folder");
  const std::string path = place->path();
  Descriptor file(open_trusted(*place, Trust(program)));
  const std::string found = stamp_of_module(file.number());
  if (found != stamp)
    throw MissingError(path + " belongs to another build (" + (found.empty() ? "it names none" : found) +
                       ", this program is " + stamp + "); build or install both together");
  // The loader takes a name that it knows for the library that it has already loaded, so no other file may ever get
  // this descriptor number: it stays open.
  void* handle = ::dlopen(("/proc/self/fd/" + std::to_string(file.number())).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw MissingError(path + " cannot be loaded: " + ::dlerror());
  file.keep();
  return handle;
}

}  // namespace dtrain
