// Every enumeration with words: each value has one, no two are alike, and a word leads back to its value.
#include "dtrain/base/words.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "dtrain/base/log.hpp"
#include "dtrain/config/experiment.hpp"
#include "dtrain/data/pack/pack.hpp"
#include "dtrain/io/records/record_file.hpp"
#include "dtrain/runlog/progress.hpp"
#include "dtrain/study/points_table.hpp"
#include "dtrain/study/sweep_launch.hpp"
#include "dtrain/watch/rank_table.hpp"
#include "support/catch.hpp"

using namespace dtrain;

namespace {

// In function names compilers write a value by its name if it has one, else as a cast: "V = (dtrain::Task)7".
template <auto V>
constexpr bool is_declared() {
  return std::string_view(__PRETTY_FUNCTION__).find("V = (") == std::string_view::npos;
}

template <typename E, int... Number>
std::vector<E> declared_among(std::integer_sequence<int, Number...>) {
  std::vector<E> values;
  ((is_declared<static_cast<E>(Number)>() ? values.push_back(static_cast<E>(Number)) : void()), ...);
  return values;
}

// All values of an enumeration that counts from 0.
template <typename E>
std::vector<E> values_of() {
  return declared_among<E>(std::make_integer_sequence<int, 32>());
}

// `without`: values that have no word.
template <typename E>
void check_words(const std::vector<E>& without = {}) {
  const std::vector<std::string> words = words_of<E>();
  CAPTURE(words);
  CHECK(std::set(words.begin(), words.end()).size() == words.size());
  CHECK(values_of<E>().size() == words.size() + without.size());
  for (const E value : values_of<E>()) {
    const std::string word = name_of(value);
    CAPTURE(word);
    const bool has_none = std::find(without.begin(), without.end(), value) != without.end();
    CHECK(word.empty() == has_none);
    CHECK((word_index(value) == -1) == has_none);
    if (!has_none) {
      CHECK(value_of<E>(word) == value);
      CHECK(words.at(static_cast<size_t>(word_index(value))) == word);
    }
  }
  CHECK_FALSE(value_of<E>("").has_value());
  CHECK_FALSE(value_of<E>("no such word").has_value());
}

}  // namespace

TEST_CASE("the values that an enumeration declares are found") {
  CHECK(values_of<Resize>() == std::vector{Resize::squash, Resize::pad, Resize::crop});
  CHECK(values_of<Task>().front() == Task::from_format);
}

TEST_CASE("words of the configuration are complete, unlike each other, and lead back to their values") {
  check_words<Task>({Task::from_format});
  check_words<Precision>();
  check_words<DeviceChoice>();
  check_words<OnMissing>();
  check_words<Sampling>();
  check_words<Distribute>();
  check_words<PictureKeep>();
  check_words<BadSample>();
  check_words<Pipeline>();
  check_words<Uncertain>();
  check_words<SplitOptions::By>();
  check_words<Resize>();
  check_words<RankScaling>();
  check_words<DecayName>();
  check_words<Backend>();
  check_words<Reduction>();
  check_words<IntraHost>();
}

TEST_CASE("so are those of the command line, of files and of messages") {
  check_words<LogLevel>();
  check_words<ProgressMode>();
  check_words<PackTo>();
  check_words<PackTurn>({PackTurn::none});
  check_words<PackedCodec>();
  check_words<PackedPart>({PackedPart::none});
  check_words<Compression>({Compression::none});
  check_words<Section>();
  check_words<PointState>();
  check_words<SweepLaunch>();
}
