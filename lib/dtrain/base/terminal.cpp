#include "dtrain/base/terminal.hpp"

#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "dtrain/base/text.hpp"

namespace dtrain {

namespace {

static_assert(std::atomic<bool>::is_always_lock_free);
std::atomic<bool> bar_stands{false};

/// While it lives, the C library reads this thread's characters as UTF-8.
class Utf8 {
 public:
  Utf8() : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (locale_ != nullptr) before_ = uselocale(locale_);
  }
  ~Utf8() {
    if (locale_ == nullptr) return;
    uselocale(before_);
    freelocale(locale_);
  }
  Utf8(const Utf8&) = delete;
  Utf8& operator=(const Utf8&) = delete;

 private:
  locale_t locale_ = nullptr;
  locale_t before_ = nullptr;
};

struct Character {
  size_t bytes = 1;
  int columns = 1;
};

// The first character of `text`, which is not empty.
Character first_character(std::string_view text) {
  const size_t bytes = std::max<size_t>(1, utf8_length(text));
  if (bytes == 1) return {};
  wchar_t wide = 0;
  mbstate_t state{};
  if (mbrtowc(&wide, text.data(), bytes, &state) != bytes) return {bytes, 1};
  const int columns = wcwidth(wide);
  return {bytes, columns < 0 ? 1 : columns};  // < 0: unknown to the tables, terminals show a box
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

int terminal_columns(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int shown_columns(std::string_view text) {
  if (is_ascii(text)) return static_cast<int>(text.size());
  const Utf8 utf8;
  int columns = 0;
  while (!text.empty()) {
    const Character next = first_character(text);
    columns += next.columns;
    text.remove_prefix(next.bytes);
  }
  return columns;
}

std::string cut_to(std::string_view text, int columns) {
  if (columns < 1) return "";
  if (shown_columns(text) <= columns) return std::string(text);
  const Utf8 utf8;
  size_t end = 0;
  for (int left = columns - 1;;) {  // always returns: the whole text does not fit
    const Character next = first_character(text.substr(end));
    if (next.columns > left) return std::string(text.substr(0, end)) + "…";
    left -= next.columns;
    end += next.bytes;
  }
}

std::string cut_middle(std::string_view text, int columns) {
  if (columns < 1) return "";
  if (shown_columns(text) <= columns) return std::string(text);
  const std::string head = cut_to(text, columns / 2 + 1);
  int left = columns - shown_columns(head);
  const Utf8 utf8;
  std::vector<Character> characters;
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(characters.back().bytes))
    characters.push_back(first_character(rest));
  size_t begin = text.size();
  size_t bytes = 0;  // of characters that belong to the one before them
  for (auto one = characters.rbegin(); one != characters.rend() && one->columns <= left; ++one) {
    left -= one->columns;
    bytes += one->bytes;
    if (one->columns == 0) continue;
    begin -= bytes;
    bytes = 0;
  }
  return head + std::string(text.substr(begin));
}

std::string cell(std::string_view text, int columns) {
  std::string out = cut_middle(text, columns);
  out.append(static_cast<size_t>(std::max(0, columns - shown_columns(out))), ' ');
  return out;
}

int cell_columns(const std::vector<std::string>& names, int least) {
  constexpr int kMost = 48;
  int columns = least;
  for (const std::string& name : names) columns = std::max(columns, std::min(kMost, shown_columns(name)));
  return columns;
}

bool shows_colour(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(descriptor) == 1 && (no_color == nullptr || *no_color == 0) &&
         (term == nullptr || std::string_view(term) != "dumb");
}

std::string coloured(const std::string& line, const char* colour, int descriptor) {
  return shows_colour(descriptor) ? colour + line + kNoColour : line;
}

void note_bar() { bar_stands = true; }

void remove_bar() {
  if (!bar_stands.exchange(false)) return;
  constexpr std::string_view kClear = "\r\033[J";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kClear.data(), kClear.size());
}

}  // namespace dtrain
