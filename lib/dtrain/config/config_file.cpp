#include "dtrain/config/config_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/yaml_tree.hpp"

namespace dtrain {

namespace {

using Clock = std::chrono::steady_clock;

// What exists beside the missing one: chips.yaml for chips.yml.
std::string what_is_there(const std::string& path) {
  const std::filesystem::path wanted(path);
  std::vector<std::string> names;
  std::error_code error;
  const std::filesystem::path folder = wanted.has_parent_path() ? wanted.parent_path() : ".";
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (const std::string name = entry->path().filename().string(); name.ends_with(".yaml") || name.ends_with(".yml"))
      names.push_back(name);
  std::sort(names.begin(), names.end());
  const std::string near = nearest_word(wanted.filename().string(), names);
  if (!near.empty()) return " (did you mean '" + (wanted.parent_path() / near).string() + "'?)";
  if (names.empty()) return "; name the YAML file of the run";
  constexpr size_t kShown = 5;
  if (names.size() > kShown) {
    names.resize(kShown);
    names.emplace_back("…");
  }
  return "; there are " + join(names, ", ");
}

constexpr std::chrono::seconds kForWriter{3};
constexpr std::chrono::seconds kForText{60};

class ConfigFile {
 public:
  // Opening a FIFO waits for a writer, opening some devices for a carrier, unless it is told not to.
  explicit ConfigFile(const std::string& path) : path_(path), descriptor_(opened(path, O_NONBLOCK)) {
    if (descriptor_ < 0 && errno == EWOULDBLOCK) descriptor_ = opened(path, 0);  // a file with another program's lease
    if (descriptor_ < 0 && errno == ENXIO) refuse();
    if (descriptor_ < 0 && errno == ENOENT)
      throw MissingError("cannot open the configuration " + path + ": No such file or directory" + what_is_there(path));
    if (descriptor_ < 0) throw_errno("open the configuration", path, errno);
  }
  ~ConfigFile() { ::close(descriptor_); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;

  std::string text() {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) throw_errno("inspect the configuration", path_, errno);
    if (S_ISDIR(status.st_mode)) throw ConfigError(path_ + " is a folder, not a configuration file; name a file in it");
    const bool pipe = S_ISFIFO(status.st_mode);
    if (!pipe && !S_ISREG(status.st_mode)) refuse();
    std::string text;
    std::array<char, 65536> buffer{};
    bool ended = false;
    while (!ended && text.size() <= kYamlMaxBytes) {
      const ssize_t got = ::read(descriptor_, buffer.data(), buffer.size());
      const int error = got < 0 ? errno : 0;
      if (got > 0) {
        text.append(buffer.data(), static_cast<size_t>(got));
      } else if (pipe && got < 0 && error == EAGAIN) {
        wait(kForText);
      } else if (pipe && got == 0 && text.empty()) {  // no writer: not yet, or no longer
        ended = !wait(kForWriter);
      } else if (error != EINTR) {
        if (error != 0) throw_errno("read the configuration", path_, error);
        ended = true;
      }
    }
    return text;
  }

 private:
  static int opened(const std::string& path, int flags) { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags); }
  /// Waits until there is something to read. False if the writer went away without writing.
  bool wait(std::chrono::seconds limit) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(began_ + limit - Clock::now());
    pollfd pipe{descriptor_, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&pipe, 1, static_cast<int>(left.count())) == 0)
      throw ConfigError(path_ + " is a pipe to which nothing has written a configuration for " +
                        std::to_string(limit.count()) + " s");
    return (pipe.revents & (POLLHUP | POLLIN)) != POLLHUP;
  }

  [[noreturn]] void refuse() const {
    throw ConfigError(path_ + " is a device or a socket; a configuration is a file or a pipe");
  }

  const std::string& path_;
  int descriptor_;
  Clock::time_point began_ = Clock::now();
};

}  // namespace

std::string read_config_file(const std::string& path) { return ConfigFile(path).text(); }

}  // namespace dtrain
