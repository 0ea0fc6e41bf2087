#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

/// The command line of a program that plants faults. CLI11 does the work, in one file for all of them: its header takes
/// longer to compile than the programs.
class Options {
 public:
  explicit Options(const std::string& about);
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  /// What follows `name` is stored in `value`, which is unchanged if the option is not given.
  void number(const std::string& name, int64_t& value, const std::string& help, int64_t least);
  void seed(uint64_t& value);
  void text(const std::string& name, std::string& value, const std::string& help);
  /// One of these must be given; several may be.
  void require_any(const std::vector<std::string>& names);

  /// None if the program should continue; else its exit code, after the help or the error was printed.
  std::optional<int> read(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
