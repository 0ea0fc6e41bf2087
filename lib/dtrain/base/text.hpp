#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// The only candidate that begins with `word`, else the nearest to it (edits, transpositions counted as one), or ""
/// when none is near enough to be meant.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

/// 1234567 as "1,234,567".
std::string with_commas(int64_t value);

/// "1 image", "2 images"; the plural is `singular` + "s" unless given.
std::string count_of(int64_t n, const std::string& singular, const std::string& plural = "");

std::string join(const std::vector<std::string>& parts, std::string_view between);
/// "a, b or c" with `last` = "or"; one part is itself, none "".
std::string join_last(const std::vector<std::string>& parts, const std::string& last);
std::vector<std::string> split_text(std::string_view text, char at);
std::string_view trimmed(std::string_view text);
std::string lower_case(std::string_view text);

/// Bytes of the well-formed UTF-8 character at the start of `text`, 0 if there is none (Unicode 15, table 3-7).
size_t utf8_length(std::string_view text);

/// The shortest decimal that reads back as the same double ("0.001", "1e-05"), independent of the locale.
std::string shortest(double value);
/// `value` with `digits` after the point, as in printf's %.*f.
std::string fixed(double value, int digits);

/// The first `cap` of `items`, one per line with two spaces before, then "… and 17 more" if there are more.
std::string capped_list(const std::vector<std::string>& items, size_t cap = 20);

/// Natural order: digits compare as numbers, so that slice2 comes before slice10.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace dtrain
