#include "dtrain/runlog/progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

std::string progress_text(const Progress& p) {
  char rate[32];
  std::snprintf(rate, sizeof rate, "%.1e", p.learning_rate);
  return "epoch " + std::to_string(p.epoch) + "/" + std::to_string(p.epochs) + "  step " + std::to_string(p.step) +
         "/" + std::to_string(p.steps) + "  loss " + fixed(p.loss, 4) + "  lr " + rate + "  " +
         (p.images_per_s < 100 ? fixed(p.images_per_s, 1) : with_commas(static_cast<int64_t>(p.images_per_s + 0.5))) +
         " images/s  data-wait " + fixed(100 * p.data_wait, 0) + " %  eta " + clock_text(p.eta_s);
}

static ProgressMode resolved(ProgressMode mode, bool launched) {
  if (mode != ProgressMode::automatic) return mode;
  const char* term = std::getenv("TERM");
  const bool terminal = isatty(STDERR_FILENO) == 1 && !launched && term != nullptr && std::string_view(term) != "dumb";
  return terminal ? ProgressMode::bar : ProgressMode::plain;
}

ProgressLine::ProgressLine(ProgressMode mode, bool launched, const Log& log)
    : mode_(resolved(mode, launched)), log_(log) {}

void ProgressLine::show(const Progress& progress) {
  show(progress.step, progress.steps, [&] { return progress_text(progress); });
}

void ProgressLine::show(int64_t done, int64_t total, const std::function<std::string()>& text) {
  constexpr double kPlainEvery = 10;
  constexpr double kBarEvery = 0.2;
  if (mode_ == ProgressMode::none || since_line_.seconds() < (mode_ == ProgressMode::bar ? kBarEvery : kPlainEvery))
    return;
  since_line_.restart();
  if (mode_ == ProgressMode::plain) {
    log_.info(text());
    return;
  }
  constexpr int64_t kCells = 20;
  const int64_t full = total > 0 ? kCells * done / total : 0;
  std::string bar;
  for (int64_t i = 0; i < kCells; ++i) bar += i < full ? "█" : "░";
  std::fprintf(stderr, "\r\033[K%s %s", bar.c_str(), printable(text()).c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressLine::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace dtrain
