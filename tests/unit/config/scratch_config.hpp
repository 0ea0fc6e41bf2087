#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/config/config.hpp"
#include "support/text.hpp"

namespace dtrain::test {

/// A folder for one test, removed at its end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "dtrain_config_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = std::filesystem::canonical(name).string();
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = path_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  std::string path_;
};

/// An environment variable that is set during one test.
class Variable {
 public:
  Variable(const std::string& name, const std::string& value) : name_(name) { setenv(name.c_str(), value.c_str(), 1); }
  ~Variable() { unsetenv(name_.c_str()); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  std::string name_;
};

inline Config from_text(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  const ScratchFolder folder;
  return load_config({{folder.write("t.yaml", yaml)}, false, overrides});
}

inline Config from_overrides(const std::vector<std::string>& overrides) { return load_config({{}, false, overrides}); }

/// The error that load_config() reports for `yaml`, without the folder's name; "" if there is none.
inline std::string errors_of(const std::string& yaml, const std::vector<std::string>& overrides = {}, int code = 78) {
  const ScratchFolder folder;
  try {
    load_config({{folder.write("t.yaml", yaml)}, false, overrides});
  } catch (const Error& error) {
    std::string text = shown(error.what());
    if (error.code() != code) return "code " + std::to_string(error.code()) + ": " + text;
    for (size_t at = text.find(folder.path() + "/"); at != std::string::npos; at = text.find(folder.path() + "/"))
      text.erase(at, folder.path().size() + 1);
    return text;
  }
  return "";
}

}  // namespace dtrain::test
