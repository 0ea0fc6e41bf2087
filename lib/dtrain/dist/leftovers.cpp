#include "dtrain/dist/leftovers.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "dtrain/base/host.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    paths.push_back(entry->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// The status of the entry itself, following no link; none unless it belongs to this user.
std::optional<struct stat> mine(const fs::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || status.st_uid != geteuid()) return std::nullopt;
  return status;
}

/// HOST.UID: the host's name without its domain, as Open MPI uses it.
std::string host_and_user() {
  const std::string host = host_name();
  return host.substr(0, host.find('.')) + "." + std::to_string(geteuid());
}

/// Files that processes of this user have mapped or open. Processes with more rights than their user, which he may not
/// inspect, are skipped: no rank is one.
std::vector<std::string> held_files(const fs::path& processes) {
  std::vector<std::string> held;
  for (const fs::path& process : entries_of(processes)) {
    if (!is_number(process.filename().string()) || !mine(process)) continue;
    std::ifstream maps(process / "maps");
    for (std::string line; std::getline(maps, line);)
      if (const size_t path = line.find('/'); path != std::string::npos) held.push_back(line.substr(path));
    for (const fs::path& descriptor : entries_of(process / "fd")) {
      std::error_code error;
      held.push_back(fs::read_symlink(descriptor, error).string());
    }
  }
  return held;
}

bool any_in(const std::vector<std::string>& held, const std::string& path) {
  return std::any_of(held.begin(), held.end(), [&](const std::string& file) {
    return file.starts_with(path) && (file.size() == path.size() || file[path.size()] == '/');
  });
}

int64_t bytes_in(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (struct stat status{}; lstat(entry->path().c_str(), &status) == 0 && S_ISREG(status.st_mode))
      bytes += status.st_size;
  return bytes;
}

}  // namespace

LeftoverPlaces leftover_places() {
  for (const char* name : {"OMPI_MCA_orte_tmpdir_base", "TMPDIR", "TEMP", "TMP"})
    if (const char* folder = std::getenv(name)) return {folder};
  return {"/tmp"};
}

std::string sessions_folder(const LeftoverPlaces& places) { return places.temporary + "/ompi." + host_and_user(); }

SessionsHold::SessionsHold(const LeftoverPlaces& places)
    : sessions_(sessions_folder(places)), own_(sessions_ + "/pid." + std::to_string(getpid())) {
  constexpr int kTries = 10000;  // each fails only if another removed the common folder since it was made
  for (int i = 0; i < kTries; ++i) {
    mkdir(sessions_.c_str(), S_IRWXU);
    if (mkdir(own_.c_str(), S_IRWXU) == 0 || errno != ENOENT) return;
  }
}

SessionsHold::~SessionsHold() {
  rmdir(own_.c_str());
  rmdir(sessions_.c_str());  // unless others are in it
}

std::vector<Leftover> open_mpi_leftovers(const LeftoverPlaces& places) {
  std::vector<Leftover> found;
  const fs::path sessions = sessions_folder(places);
  if (const auto status = mine(sessions); status && S_ISDIR(status->st_mode))
    for (const fs::path& session : entries_of(sessions)) {
      const std::string name = session.filename().string();
      const auto what = mine(session);
      if (!name.starts_with("pid.") || !is_number(name.substr(4)) || !what || !S_ISDIR(what->st_mode)) continue;
      if (!fs::exists(fs::path(places.processes) / name.substr(4))) found.push_back({session.string(), 0});
    }
  for (const fs::path& segment : entries_of(places.shared))
    if (segment.filename().string().starts_with("vader_segment." + host_and_user() + "."))
      if (const auto status = mine(segment); status && S_ISREG(status->st_mode))
        found.push_back({segment.string(), status->st_size});
  if (found.empty()) return found;
  const std::vector<std::string> held = held_files(places.processes);
  std::erase_if(found, [&](const Leftover& one) { return any_in(held, one.path); });
  for (Leftover& one : found)
    if (fs::is_directory(one.path)) one.bytes = bytes_in(one.path);
  return found;
}

}  // namespace dtrain
