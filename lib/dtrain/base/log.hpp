#pragma once
#include <memory>
#include <string>

#include "dtrain/base/words.hpp"

namespace dtrain {

enum class LogLevel { debug, info, warning, error };

template <>
inline constexpr auto kWordsOf<LogLevel> = std::to_array<Word<LogLevel>>(
    {{LogLevel::debug, "debug"}, {LogLevel::info, "info"}, {LogLevel::warning, "warning"}, {LogLevel::error, "error"}});

/// Messages for people: to stderr, and from attach_file() on to a file such as the run's log.txt too. Data never go
/// here (stdout is for data). Rank 0 prints everything; other ranks' logs pass only errors, each with a prefix such as
/// `[rank 5 @ node02]`. Thread-safe. Colour only if stderr is a terminal, NO_COLOR is unset and TERM is not `dumb`.
class Log {
 public:
  /// `prefix` empty on rank 0.
  explicit Log(LogLevel level = LogLevel::info, const std::string& prefix = "");
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  /// Appends from now on to a file as well, with time and level before each line: what is at `level` or above.
  /// `descriptor` is open for appending, and is closed with this object.
  void attach_file(int descriptor, LogLevel level = LogLevel::info);

  void debug(const std::string& line) const;
  void info(const std::string& line) const;
  void warning(const std::string& line) const;
  void error(const std::string& line) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
