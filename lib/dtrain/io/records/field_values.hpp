#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// The contents of one field of a record: texts, or numbers.
struct FieldValues {
  bool numeric = false;
  std::vector<std::string> texts;  ///< numbers as text too: integers in decimal, others in their shortest form
  std::vector<double> numbers;     ///< where numeric, beside `texts`; NaN for a JSON null
};

/// Memory that it takes, about.
inline int64_t bytes_of(const FieldValues& values) {
  return static_cast<int64_t>(sizeof values + values.texts.size() * sizeof(std::string) +
                              values.numbers.size() * sizeof(double));
}

/// A field of a JSON object: a text, a number, true (1), false (0), null, or a list of texts or of the others. Throws
/// DataError, `name` before the sentence, for text that is not a JSON object, that lacks the field (those there are,
/// are named), or anything else in it.
FieldValues json_field(std::string_view text, const std::string& field, const std::string& name);

}  // namespace dtrain
