#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/rows.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/base/words.hpp"
#include "dtrain/config/yaml_tree.hpp"
#include "dtrain/model/options.hpp"
#include "dtrain/optim/options.hpp"

namespace dtrain {

/// What a relative path starts from.
struct PathBases {
  std::string source;     ///< folder of the file that sets the key, or the working directory
  std::string data_root;  ///< absolute, or "" when the configuration has none
};

/// How one field is read from YAML and written to it again. Bound to the field, which must outlive it.
struct Codec {
  std::string type;         ///< "number > 0": for the documentation and for "wants a …"
  std::string json_schema;  ///< fragment, JSON text
  /// Sets the field; "" or what is wrong, to follow the key: "wants a number > 0, not 'fast'".
  std::function<std::string(const YamlNode&, const PathBases&)> read;
  /// The field as YAML flow text; "" while it is unset.
  std::function<std::string()> print;
};

bool is_scalar(const YamlNode& node);
/// "wants TYPE, not WHAT", as Codec::read gives it back.
std::string wants(const std::string& type, const YamlNode& node);

/// `text` as a YAML scalar that reads back as the same string, `${` included; quoted where it must be.
std::string yaml_text(const std::string& text);

// Numbers (numbers.cpp). Whole-valued reals such as 1e3 are accepted as integers; NaN and infinity never are.
struct WholeRange {
  int64_t min = 0;
  int64_t max = std::numeric_limits<int64_t>::max();
  std::string word = "";  ///< a word that stands for `word_value`: auto, none; "" = there is none
  int64_t word_value = 0;
};
struct RealRange {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  bool min_open = false;  ///< min itself is refused
  bool max_open = false;
  std::string word = "";  ///< stands for 0
};
Codec whole_codec(int64_t& field, const WholeRange& range);
Codec optional_whole_codec(std::optional<int64_t>& field, const WholeRange& range);
/// An odd number from 1 to `max`.
Codec odd_codec(int64_t& field, int64_t max);
Codec seed_codec(uint64_t& field);
Codec real_codec(double& field, const RealRange& range);
Codec reals_codec(std::vector<double>& field, const RealRange& range);
/// Two fields written as a list of two: image.size, betas.
Codec size_codec(int64_t& height, int64_t& width, const WholeRange& range);
Codec two_reals_codec(double& first, double& second, const RealRange& range);
/// [low, high] with low < high, both in `range`; unset while both are equal, for which `range.word` may stand.
Codec range_codec(double& low, double& high,
                  const RealRange& range = {.min = -std::numeric_limits<double>::infinity()});
/// none | balanced | [factor, …]
Codec output_weights_codec(OutputWeights& weights);
/// none | [{match: pattern, rate: factor, weight_decay: number, freeze: flag}, …] (group_codec.cpp)
Codec groups_codec(std::vector<ParameterGroup>& field);
/// {pixel value: class, …}
Codec mask_values_codec(std::map<int64_t, int64_t>& field);

// Lengths of training and of time.
struct LengthRange {
  bool none = false;   ///< `none` stands for 0
  bool whole = false;  ///< whole epochs or steps, at least 1
  bool above_zero = false;
  bool time = false;  ///< time > 0 as well
};
Codec length_codec(Duration& field, const LengthRange& range);  ///< epochs or steps
Codec lengths_codec(std::vector<Duration>& field);              ///< a list of them, each > 0
/// Time > 0, kept in seconds; `none`, where it is allowed, is infinity.
Codec seconds_codec(double& field, bool none = false);

// Words.
Codec flag_codec(bool& field);
Codec text_codec(std::string& field);
Codec texts_codec(std::vector<std::string>& field, const std::string& word_for_empty = "");
/// One of `words`, which `get` and `set` know by index; `get` gives -1 for none of them.
Codec words_codec(const std::vector<std::string>& words, std::function<int()> get, std::function<void(int)> set);

/// {key: word, …} with each key one of `keys`; `get` and `set` know words by their index in `words`.
Codec word_map_codec(const std::vector<std::string>& keys, const std::vector<std::string>& words,
                     std::function<std::map<std::string, int>()> get,
                     std::function<void(const std::map<std::string, int>&)> set);
/// none, or `K of N` with 1 <= K <= N and N from 2 to 1000; none is 0 of 0.
Codec fold_codec(int64_t& fold, int64_t& folds);

/// One of the enumeration's words (base/words.hpp).
template <class Enum>
Codec choice_codec(Enum& field) {
  return words_codec(
      words_of<Enum>(), [&field] { return word_index(field); },
      [&field](int place) { field = kWordsOf<Enum>[static_cast<size_t>(place)].value; });
}

/// One of `rows` by its name. `word`: stands for nullptr, offered first; "" = the field is never null, nor set so.
template <class Row>
Codec row_codec(const Row*& field, const RowList<Row>& rows, const std::string& word = "") {
  std::vector<const Row*> values;
  std::vector<std::string> names;
  if (!word.empty()) {
    values.push_back(nullptr);
    names.push_back(word);
  }
  for (const Row* row : rows) {
    values.push_back(row);
    names.push_back(row->name);
  }
  return words_codec(
      names,
      [&field, values] { return static_cast<int>(std::find(values.begin(), values.end(), field) - values.begin()); },
      [&field, values](int i) { field = values[static_cast<size_t>(i)]; });
}

/// {key: word of the enumeration, …} with each key one of `keys`.
template <class Enum>
Codec choice_map_codec(std::map<std::string, Enum>& field, const std::vector<std::string>& keys) {
  return word_map_codec(
      keys, words_of<Enum>(),
      [&field] {
        std::map<std::string, int> places;
        for (const auto& [key, value] : field) places[key] = word_index(value);
        return places;
      },
      [&field](const std::map<std::string, int>& places) {
        field.clear();
        for (const auto& [key, place] : places) field[key] = kWordsOf<Enum>[static_cast<size_t>(place)].value;
      });
}

// Paths (paths.cpp).
enum class PathRule {
  beside_file,        ///< relative to the file that sets it; stored absolute
  working_directory,  ///< relative to the working directory; stored absolute
  under_root,         ///< under data.root unless it begins with / ./ ../; stored absolute
  name_under_root,    ///< the same, but what lies under data.root is stored relative to it
};
Codec path_codec(std::string& field, PathRule rule);
/// The entry `part` of a map from part to path.
Codec part_path_codec(std::map<std::string, std::string>& field, const std::string& part, PathRule rule);

}  // namespace dtrain
