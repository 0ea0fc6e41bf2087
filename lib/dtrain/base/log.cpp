#include "dtrain/base/log.hpp"

#include <fcntl.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"

namespace dtrain {

static bool colour_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (no_color == nullptr || *no_color == 0) &&
         (term == nullptr || std::string_view(term) != "dumb");
}

static spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

struct Log::Impl {
  std::shared_ptr<spdlog::sinks::ansicolor_stderr_sink_mt> console;
  std::unique_ptr<spdlog::logger> logger;
};

Log::Log(LogLevel level, const std::string& prefix) : impl_(std::make_unique<Impl>()) {
  const auto mode = colour_wanted() ? spdlog::color_mode::always : spdlog::color_mode::never;
  impl_->console = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(mode);
  impl_->console->set_pattern(prefix.empty() ? "%^%v%$" : "[" + prefix + "] %^%v%$");
  impl_->console->set_level(spdlog_level(prefix.empty() ? level : std::max(level, LogLevel::error)));
  impl_->logger = std::make_unique<spdlog::logger>("dtrain", impl_->console);
  impl_->logger->set_level(spdlog::level::debug);
  impl_->logger->flush_on(spdlog::level::debug);
}
Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

void Log::attach_file(const std::string& path) {
  const int made = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0640);  // spdlog would let everybody read it
  if (made < 0) throw_errno("write", path, errno);
  ::close(made);
  try {
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, false);
    file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    file->set_level(spdlog::level::info);
    impl_->logger->sinks().push_back(std::move(file));
  } catch (const spdlog::spdlog_ex&) {
    throw_errno("write", path, errno);
  }
}

void Log::debug(const std::string& line) const { impl_->logger->debug("{}", shown(line)); }
void Log::info(const std::string& line) const { impl_->logger->info("{}", shown(line)); }
void Log::warning(const std::string& line) const { impl_->logger->warn("{}", shown(line)); }
void Log::error(const std::string& line) const { impl_->logger->error("{}", shown(line)); }

}  // namespace dtrain
