#pragma once
#include <string>
#include <string_view>
#include <vector>

// What the lines on a terminal depend on: how wide it is, how wide a text is there, whether it shows colours, and
// whether a progress bar is on its last line. Texts have passed printable().

namespace dtrain {

/// Columns of the terminal behind `descriptor` at this moment; 0 if there is none, or if it does not say.
int terminal_columns(int descriptor);

/// Columns that `text` takes on a terminal: 2 for a wide character of East Asia, none for one that combines with the
/// one before it, else 1, by the C library's tables (wcwidth of C.UTF-8, whatever the locale is; a C library without
/// that locale counts characters). A byte that is not UTF-8 takes 1.
int shown_columns(std::string_view text);

/// `text` if it takes no more than `columns`, else as much of its beginning as fits with "…". "" if `columns` < 1.
std::string cut_to(std::string_view text, int columns);

/// The same, but with the text's end too and "…" between: names that differ in their last letters stay different.
std::string cut_middle(std::string_view text, int columns);

/// A cell of a table: `text`, cut_middle() or filled up with spaces on the right to exactly `columns`.
std::string cell(std::string_view text, int columns);

/// The cells of a column. Texts that cell() would make equal are cut elsewhere, so that different ones stay different;
/// where no cut tells them apart, they are numbered.
std::vector<std::string> cells(const std::vector<std::string>& texts, int columns);

/// How wide a column of `names` is: as wide as the widest, from `least` to 48 columns; longer names are cut there.
int cell_columns(const std::vector<std::string>& names, int least);

/// The lines of a table whose first row has the headings: columns as wide as their widest cell, two spaces between
/// them. A column that is empty below its heading is left out.
std::vector<std::string> table_lines(const std::vector<std::vector<std::string>>& table);

/// Colours, as spdlog has them for errors and warnings, and the end of a colour.
inline constexpr const char* kErrorColour = "\033[31m\033[1m";
inline constexpr const char* kWarningColour = "\033[33m\033[1m";
inline constexpr const char* kNoColour = "\033[m";
/// Whether `descriptor` is a terminal, NO_COLOR is not set and TERM is not `dumb`. Allocates no memory.
bool shows_colour(int descriptor);
/// `line` in `colour`, if `descriptor` shows colours.
std::string coloured(const std::string& line, const char* colour, int descriptor);

/// Notes that a progress bar is on the last line of stderr's terminal, with the cursor at its beginning.
void note_bar();
/// Removes it, if there is one, so that another line can take its place. Safe in a signal handler.
void remove_bar();

}  // namespace dtrain
