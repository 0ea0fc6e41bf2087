#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// A value of an enumeration and the word by which people type and read it.
template <typename E>
struct Word {
  E value;
  const char* text;
};

/// The words of an enumeration, in the order in which they are offered. Each enumeration has its own beside it, for
/// which this header includes <array>:
///
///   enum class Pipeline { parallel, sequential };
///   template <>
///   inline constexpr auto kWordsOf<Pipeline> =
///       std::to_array<Word<Pipeline>>({{Pipeline::parallel, "parallel"}, {Pipeline::sequential, "sequential"}});
/// A value without a word is one that nobody types. tests/unit/config/words_test.cpp checks that each list is complete.
template <typename E>
inline constexpr auto kWordsOf = nullptr;

/// "" for a value without a word.
template <typename E>
constexpr const char* name_of(E value) {
  for (const Word<E>& word : kWordsOf<E>)
    if (word.value == value) return word.text;
  return "";
}

/// Its index among the words; -1 for a value without one.
template <typename E>
constexpr int word_index(E value) {
  int place = 0;
  for (const Word<E>& word : kWordsOf<E>) {
    if (word.value == value) return place;
    ++place;
  }
  return -1;
}

/// Nothing if it is none of the words.
template <typename E>
constexpr std::optional<E> value_of(std::string_view text) {
  for (const Word<E>& word : kWordsOf<E>)
    if (text == word.text) return word.value;
  return std::nullopt;
}

template <typename E>
std::vector<std::string> words_of() {
  std::vector<std::string> texts;
  for (const Word<E>& word : kWordsOf<E>) texts.emplace_back(word.text);
  return texts;
}

}  // namespace dtrain
