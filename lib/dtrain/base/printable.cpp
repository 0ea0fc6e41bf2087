#include "dtrain/base/printable.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "dtrain/base/text.hpp"

namespace dtrain {

namespace {

constexpr char kOwnLines = '\x1E';  // the first character of a message that has several lines

uint32_t code_point(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(character[i])); };
  if (character.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0x7FU >> character.size());
  for (size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3FU);
  return code;
}

bool terminals_act_on(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x061C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

std::string escaped(uint32_t code, const char* format) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, format, static_cast<unsigned>(code));
  return buffer;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text.substr(at));
    const std::string_view character = text.substr(at, std::max<size_t>(length, 1));
    if (length == 0) {
      out += escaped(static_cast<unsigned char>(character[0]), "\\x%02X");
    } else if (const uint32_t code = code_point(character); terminals_act_on(code)) {
      out += escaped(code, "\\u%04x");
    } else {
      out += character;
    }
    at += character.size();
  }
  return out;
}

// Messages quote lines of files, and a line may be a whole file.
static std::string without_middle(std::string_view text) {
  constexpr size_t kMost = 8192;
  constexpr size_t kEnd = kMost / 2 - 64;
  if (text.size() <= kMost) return std::string(text);
  return std::string(text.substr(0, kEnd)) + "… (" + with_commas(static_cast<int64_t>(text.size() - 2 * kEnd)) +
         " bytes) …" + std::string(text.substr(text.size() - kEnd));
}

// Twice, since escapes lengthen the text and a cut may split a character.
static std::string line_of(std::string_view text) { return printable(without_middle(printable(without_middle(text)))); }

std::vector<std::string> lines_of(std::string_view message) {
  if (!message.starts_with(kOwnLines)) return {line_of(message)};
  std::vector<std::string> lines = split_text(message.substr(1), '\n');
  for (std::string& line : lines) line = line_of(line);
  return lines;
}

std::string shown(std::string_view message) { return join(lines_of(message), "\n"); }

std::string one_below_another(const std::vector<std::string>& messages) {
  std::vector<std::string> lines;
  for (const std::string& message : messages)
    for (std::string& line : lines_of(message)) lines.push_back(std::move(line));
  return (lines.size() > 1 ? std::string(1, kOwnLines) : "") + join(lines, "\n");
}

std::string with_list(const std::string& head, const std::vector<std::string>& items, size_t cap) {
  std::vector<std::string> plain;
  for (const std::string& item : items) plain.push_back(printable(item));
  return kOwnLines + shown(head) + "\n" + capped_list(plain, cap);
}

}  // namespace dtrain
