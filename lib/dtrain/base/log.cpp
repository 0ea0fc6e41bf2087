#include "dtrain/base/log.hpp"

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string_view>

#include "dtrain/base/printable.hpp"
#include "dtrain/base/terminal.hpp"

namespace dtrain {

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

  // On the terminal the line replaces a progress bar; the bar's next update draws it again below.
  void say(spdlog::level::level_enum level, const std::string& line) const {
    if (console->should_log(level)) remove_bar();
    logger->log(level, "{}", shown(line));
  }
};

Log::Log(LogLevel level, const std::string& prefix) : impl_(std::make_unique<Impl>()) {
  const auto mode = shows_colour(STDERR_FILENO) ? spdlog::color_mode::always : spdlog::color_mode::never;
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

// A failed write is ignored: a full or removed disk must not end a run because of its log.
class DescriptorSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {}
  ~DescriptorSink() override { ::close(descriptor_); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string_view left(line.data(), line.size());
    while (!left.empty()) {
      const ssize_t written = ::write(descriptor_, left.data(), left.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      left.remove_prefix(static_cast<size_t>(written));
    }
  }
  void flush_() override {}
  int descriptor_;
};

void Log::attach_file(int descriptor, LogLevel level) {
  auto file = std::make_shared<DescriptorSink>(descriptor);
  file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  file->set_level(spdlog_level(level));
  impl_->logger->sinks().push_back(std::move(file));
}

void Log::debug(const std::string& line) const { impl_->say(spdlog::level::debug, line); }
void Log::info(const std::string& line) const { impl_->say(spdlog::level::info, line); }
void Log::warning(const std::string& line) const { impl_->say(spdlog::level::warn, line); }
void Log::error(const std::string& line) const { impl_->say(spdlog::level::err, line); }

}  // namespace dtrain
