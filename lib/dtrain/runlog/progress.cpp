#include "dtrain/runlog/progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "dtrain/base/printable.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

static std::string with_exponent(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

ProgressFields progress_fields(const Progress& p) {
  const auto of = [](int64_t done, int64_t all) { return fmt::format("{}/{}", done, all); };
  const std::string rate =
      p.images_per_s < 100 ? fixed(p.images_per_s, 1) : with_commas(static_cast<int64_t>(p.images_per_s + 0.5));
  return {{"epoch " + of(p.epoch, p.epochs), 6},
          {"step " + of(p.step, p.steps), 5},
          {"loss " + short_number(p.loss, 4), 3},
          {"lr " + with_exponent(p.learning_rate), 0},
          {rate + " images/s", 2},
          {"data-wait " + fixed(100 * p.data_wait, 0) + " %", 1},
          {"eta " + clock_text(p.eta_s), 4}};
}

std::string plain_line(const ProgressFields& fields) {
  std::vector<std::string> texts;
  for (const ProgressField& field : fields) texts.push_back(field.text);
  return printable(join(texts, "  "));
}

static std::string bar_of(double share, int cells) {
  std::string bar;
  for (int i = 0; i < cells; ++i) bar += i < static_cast<int>(share * cells) ? "█" : "░";
  return bar;
}

std::string bar_line(double share, ProgressFields fields, int columns) {
  constexpr int kWide = 120;
  const std::string head = bar_of(share, columns < kWide ? 10 : 20) + " ";
  const auto lightest = [&] {
    return std::min_element(fields.rbegin(), fields.rend(),
                            [](const auto& a, const auto& b) { return a.weight < b.weight; });
  };
  while (fields.size() > 1 && shown_columns(head + plain_line(fields)) >= columns)
    fields.erase(std::next(lightest()).base());
  return cut_to(head + plain_line(fields), columns - 1);
}

static ProgressMode resolved(ProgressMode mode, bool launched) {
  if (mode != ProgressMode::automatic) return mode;
  const char* term = std::getenv("TERM");
  const bool terminal = isatty(STDERR_FILENO) == 1 && !launched && term != nullptr && std::string_view(term) != "dumb";
  return terminal ? ProgressMode::bar : ProgressMode::plain;
}

ProgressLine::ProgressLine(ProgressMode mode, bool launched, const Log& log)
    : mode_(resolved(mode, launched)), log_(log) {}

ProgressLine::~ProgressLine() { remove_bar(); }

void ProgressLine::show(const Progress& progress) {
  show(progress.step, progress.steps, [&] { return progress_fields(progress); });
}

void ProgressLine::show(int64_t done, int64_t total, const std::function<ProgressFields()>& fields) {
  constexpr double kPlainEvery = 10;
  constexpr double kBarEvery = 0.2;
  constexpr int kUsual = 80;  // if the terminal does not report its width
  if (mode_ == ProgressMode::none || since_line_.seconds() < (mode_ == ProgressMode::bar ? kBarEvery : kPlainEvery))
    return;
  since_line_.restart();
  if (mode_ == ProgressMode::plain) {
    log_.info(plain_line(fields()));
    return;
  }
  const int columns = terminal_columns(STDERR_FILENO);
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
  const std::string line = "\r\033[J" + bar_line(share, fields(), columns > 0 ? columns : kUsual) + "\r";
  note_bar();
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace dtrain
