#pragma once
#include <string>
#include <string_view>
#include <vector>

// Names of files, classes, columns, tensors and archive members are whatever their maker wrote. In messages they pass
// through here, so that none can move a terminal's cursor, reverse its letters, or look like one of our lines.

namespace dtrain {

/// `text` as one line that a terminal shows and does not act on: control characters (C0, DEL, C1), those that change
/// the direction of writing, and line and paragraph separators become \n, \t, \r or escapes like \u001b and \u202e;
/// bytes that are not UTF-8 become escapes like \xE9. Everything else stays. Applying it twice is the same as once, and
/// JSON on one line stays the same JSON.
std::string printable(std::string_view text);
inline bool is_printable(std::string_view text) { return printable(text) == text; }

/// A message of several lines: `head`, which ends in ":", and beneath it `items` as capped_list() shows them.
/// Only such a message and one_below_another() have several lines; any other message is one line, and lines_of()
/// escapes its line breaks. They are recognised by their first byte, with which no other message can begin, because
/// sentences begin with our words or with a path as the user typed it, and neither the command line nor a configuration
/// may contain that byte.
std::string with_list(const std::string& head, const std::vector<std::string>& items, size_t cap = 20);
/// Several messages as one; each may have lines of its own.
std::string one_below_another(const std::vector<std::string>& messages);
/// The lines of a message, each printable(); of one longer than 8 KiB the middle is left out.
std::vector<std::string> lines_of(std::string_view message);
/// A message as it leaves the program: its lines, joined.
std::string shown(std::string_view message);

}  // namespace dtrain
