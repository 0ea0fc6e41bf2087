#include "dtrain/base/terminal.hpp"

#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>

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
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): no more than these bytes are read
  if (mbrtowc(&wide, text.data(), bytes, &state) != bytes) return {bytes, 1};
  const int columns = wcwidth(wide);
  return {bytes, columns < 0 ? 1 : columns};  // < 0: unknown to the tables, terminals show a box
}

// As much of the beginning as `columns` have room for.
std::string_view beginning(std::string_view text, int columns) {
  const Utf8 utf8;
  size_t end = 0;
  while (end < text.size()) {
    const Character next = first_character(text.substr(end));
    if (next.columns > columns) break;
    columns -= next.columns;
    end += next.bytes;
  }
  return text.substr(0, end);
}

// As much of the end.
std::string_view ending(std::string_view text, int columns) {
  const Utf8 utf8;
  std::vector<Character> characters;
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(characters.back().bytes))
    characters.push_back(first_character(rest));
  size_t begin = text.size();
  size_t bytes = 0;  // of characters that belong to the one before them
  for (auto one = characters.rbegin(); one != characters.rend() && one->columns <= columns; ++one) {
    columns -= one->columns;
    bytes += one->bytes;
    if (one->columns == 0) continue;
    begin -= bytes;
    bytes = 0;
  }
  return text.substr(begin);
}

// Where the texts begin to differ, in bytes; never inside a character.
size_t first_difference(const std::vector<std::string>& texts) {
  const std::string_view first = texts.front();
  size_t at = 0;
  while (at < first.size()) {
    const std::string_view next = first.substr(at, std::max<size_t>(1, utf8_length(first.substr(at))));
    const auto has_it = [&](const std::string& text) {
      return std::string_view(text).substr(0, at + next.size()).ends_with(next);
    };
    if (!std::all_of(texts.begin(), texts.end(), has_it)) break;
    at += next.size();
  }
  return at;
}

using Cut = std::function<std::string(const std::string&)>;

// The ways to cut texts that cut_middle() makes equal, best first: with less or more of the beginning than of the end,
// with the part that differs between them, with one end alone.
std::vector<Cut> other_cuts(const std::vector<std::string>& texts, int columns) {
  const auto keeping = [columns](int head) {
    return [head, columns](const std::string& text) {
      return std::string(beginning(text, head)) + "…" + std::string(ending(text, columns - 1 - head));
    };
  };
  const size_t differs = first_difference(texts);
  const auto around_difference = [differs, columns](const std::string& text) {
    const int head = columns / 4;
    const int part = columns / 2;
    return std::string(beginning(text, head)) + "…" +
           std::string(beginning(std::string_view(text).substr(differs), part)) + "…" +
           std::string(ending(text, columns - head - part - 2));
  };
  return {keeping(columns / 4), keeping(3 * columns / 4), around_difference, keeping(1), keeping(columns - 2)};
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
  return std::string(beginning(text, columns - 1)) + "…";
}

std::string cut_middle(std::string_view text, int columns) {
  if (columns < 1) return "";
  if (shown_columns(text) <= columns) return std::string(text);
  const std::string head = cut_to(text, columns / 2 + 1);
  return head + std::string(ending(text, columns - shown_columns(head)));
}

std::string cell(std::string_view text, int columns) {
  std::string out = cut_middle(text, columns);
  out.append(static_cast<size_t>(std::max(0, columns - shown_columns(out))), ' ');
  return out;
}

std::vector<std::string> cells(const std::vector<std::string>& texts, int columns) {
  std::map<std::string, std::string> shown;                 // a text's cell
  std::map<std::string, std::vector<std::string>> by_cell;  // different texts
  for (const std::string& text : texts)
    if (shown.emplace(text, cell(text, columns)).second) by_cell[shown[text]].push_back(text);
  std::set<std::string> taken;
  for (const auto& [one, alike] : by_cell) taken.insert(one);
  for (const auto& [one, alike] : by_cell) {
    if (alike.size() < 2) continue;
    const auto apart = [&, &alike = alike](const Cut& cut) {
      std::set<std::string> made;
      return std::all_of(alike.begin(), alike.end(), [&](const std::string& text) {
        const std::string its = cell(cut(text), columns);
        return !taken.contains(its) && made.insert(its).second;
      });
    };
    const std::vector<Cut> cuts = other_cuts(alike, columns);
    const auto good = std::find_if(cuts.begin(), cuts.end(), apart);
    int number = 0;
    for (const std::string& text : alike) {
      std::string its = good == cuts.end() ? one : cell((*good)(text), columns);
      while (good == cuts.end() && taken.contains(its)) {
        const std::string end = "#" + std::to_string(++number);
        its = cell(cut_to(text, columns - static_cast<int>(end.size())) + end, columns);
      }
      taken.insert(its);
      shown[text] = its;
    }
  }
  std::vector<std::string> all;
  for (const std::string& text : texts) all.push_back(shown[text]);
  return all;
}

int cell_columns(const std::vector<std::string>& names, int least) {
  constexpr int kMost = 48;
  int columns = least;
  for (const std::string& name : names) columns = std::max(columns, std::min(kMost, shown_columns(name)));
  return columns;
}

std::vector<std::string> table_lines(const std::vector<std::vector<std::string>>& table) {
  std::vector<std::string> lines(table.size());
  for (size_t column = 0; column < table.front().size(); ++column) {
    std::vector<std::string> texts;
    for (const auto& row : table) texts.push_back(row[column]);
    if (std::all_of(texts.begin() + 1, texts.end(), [](const std::string& text) { return text.empty(); })) continue;
    const std::vector<std::string> shown = cells(texts, cell_columns(texts, 1));
    for (size_t row = 0; row < table.size(); ++row) lines[row] += shown[row] + "  ";
  }
  for (std::string& line : lines)
    while (line.ends_with(' ')) line.pop_back();
  return lines;
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
