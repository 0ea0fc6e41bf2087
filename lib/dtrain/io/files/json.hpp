#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dtrain {

/// JSON that this process did not write itself. The functions that nlohmann has for printing, comparing and copying
/// values recurse once per level, so deeply nested text would overrun the stack after it was read: it is not read.

/// The deepest that lists and objects may nest.
inline constexpr int kMostJsonLevels = 64;

/// Throws DataError for text that is not JSON, with the byte where it ends to be, or that nests deeper than
/// kMostJsonLevels. `name` begins the sentence: "runs/a/run.json".
nlohmann::json parse_json(std::string_view text, const std::string& name);

/// The same where text that is no JSON is one of the answers: is_discarded() then, and for what nests too deeply.
nlohmann::json try_parse_json(std::string_view text);

/// "a text", "a list" …: what a message says about a value of the wrong kind. The value itself may be of any
/// length, and is not shown.
std::string kind_of(const nlohmann::json& value);

/// value[key] as a whole number from `least` to `most`; DataError, `name` first, if it is missing or anything else.
int64_t whole_number(const nlohmann::json& value, const std::string& key, int64_t least, int64_t most,
                     const std::string& name);

}  // namespace dtrain
