#include "dtrain/data/formats/part_names.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

namespace {

using Strings = std::vector<std::string>;

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || (c & 0x80) != 0; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

// "(Train 2017)" → "train"; letters beyond ASCII stay.
std::string letters_of(std::string_view name) {
  std::string letters = lower_case(name);
  std::erase_if(letters, [](char c) { return !is_letter(c); });
  return letters;
}

// "X_trainImages2" → x, train, images.
Strings words_of(std::string_view name) {
  Strings words;
  std::string word;
  const auto end = [&] {
    if (!word.empty()) words.push_back(lower_case(word));
    word.clear();
  };
  for (size_t i = 0; i < name.size(); ++i) {
    if (!is_letter(name[i])) {
      end();
      continue;
    }
    const bool after_lower = i > 0 && is_lower(name[i - 1]);
    const bool before_lower = i > 0 && is_upper(name[i - 1]) && i + 1 < name.size() && is_lower(name[i + 1]);
    if (is_upper(name[i]) && (after_lower || before_lower)) end();
    word += name[i];
  }
  end();
  return words;
}

// Words that add nothing to what a part is called: "my_training_data" beside "my_test.tar.gz".
bool is_filler(const std::string& word) {
  static const std::set<std::string> kWords = {"set", "data", "dataset", "split", "tar",
                                               "tgz", "gz",   "gzip",    "zlib",  "zz"};
  return word.starts_with("tfrec") || kWords.contains(word.ends_with('s') ? word.substr(0, word.size() - 1) : word);
}

// What people write without a space after, or before, the part: "trainimages", "xtest".
bool is_beside_a_part(const std::string& text) {
  static const std::set<std::string> kWords = {"image", "img",  "picture", "pic",    "photo", "scan",   "slice",
                                               "frame", "mask", "label",   "sample", "file",  "folder", "dir"};
  return text.size() == 1 || kWords.contains(text.ends_with('s') ? text.substr(0, text.size() - 1) : text);
}

/// What one name may mean: a part, and the rest of its words.
struct Guess {
  std::string part;
  std::string rest;
  bool usual = true;  // by a word of part_called()
};

std::string unusual_part(const std::string& word) {
  static const std::map<std::string, std::string> kWords = {
      {"trn", "train"},    {"eval", "valid"},      {"evaluation", "valid"}, {"vld", "valid"},     {"tst", "test"},
      {"holdout", "test"}, {"heldout", "test"},    {"unseen", "test"},      {"infer", "test"},    {"inference", "test"},
      {"pred", "test"},    {"prediction", "test"}, {"predictions", "test"}, {"trainval", "train"}};
  const auto found = kWords.find(word);
  return found == kWords.end() ? "" : found->second;
}

// Abbreviations that are parts only where nothing else is beside them.
std::string short_part(const std::string& word) {
  static const std::map<std::string, std::string> kWords = {{"tr", "train"}, {"tv", "train"}, {"va", "valid"},
                                                            {"vl", "valid"}, {"te", "test"},  {"ts", "test"}};
  const auto found = kWords.find(word);
  return found == kWords.end() ? "" : found->second;
}

// "trainimages" → train and "images"; part "" for other words.
Guess glued(const std::string& word) {
  for (const std::string_view part : {"training", "train", "validation", "valid", "val", "testing", "test"}) {
    if (word.size() <= part.size()) continue;
    const std::string behind = word.substr(part.size()), before = word.substr(0, word.size() - part.size());
    if (word.starts_with(part) && is_beside_a_part(behind)) return {part_called(part), behind};
    if (word.ends_with(part) && is_beside_a_part(before)) return {part_called(part), before};
  }
  return {};
}

std::string rest_of(const Strings& words, const std::set<size_t>& without) {
  std::string rest;
  for (size_t i = 0; i < words.size(); ++i) {
    if (without.contains(i) || is_filler(words[i])) continue;
    const bool plural = words[i].size() > 3 && words[i].ends_with('s');
    rest += (rest.empty() ? "" : " ") + (plural ? words[i].substr(0, words[i].size() - 1) : words[i]);
  }
  return rest;
}

// "fold_1.tar" → "fold"; "Split 1" → "split".
std::string word_of(const std::string& name) {
  const std::string word = rest_of(words_of(name), {});
  return word.empty() ? letters_of(name) : word;
}

std::vector<Guess> guesses(const std::string& name) {
  if (const std::string part = part_called(name); !part.empty()) return {{part, ""}};
  const Strings words = words_of(name);
  std::vector<Guess> found;
  std::map<std::string, size_t> places;  // part → its word
  for (size_t i = 0; i < words.size(); ++i) {
    Guess guess{part_called(words[i]), rest_of(words, {i})};
    if (guess.part.empty()) guess = {unusual_part(words[i]), guess.rest, false};
    if (guess.part.empty())
      if (const Guess parted = glued(words[i]); !parted.part.empty()) {
        Strings others = words;
        others[i] = parted.rest;
        guess = {parted.part, rest_of(others, {})};
      }
    if (guess.part.empty()) continue;
    places.emplace(guess.part, i);
    found.push_back(std::move(guess));
  }
  if (places.contains("train") && places.contains("valid"))  // "train_val" beside "test"
    return {{"train", rest_of(words, {places.at("train"), places.at("valid")}), false}};
  return found;
}

using Kind = SoundingParts::Kind;

// Names whose words differ in that of the part alone.
SoundingParts that_differ_in_the_part(const Strings& names) {
  struct Found {
    std::set<std::string> parts;
    std::set<std::string> usual;
  };
  std::map<std::string, Found> groups;  // by the rest
  for (const std::string& name : names)
    for (const Guess& guess : guesses(name)) {
      groups[guess.rest].parts.insert(guess.part);
      if (guess.usual) groups[guess.rest].usual.insert(guess.part);
    }
  SoundingParts sounding;
  std::set<std::string> rests;
  for (const std::string& name : names)
    for (const Guess& guess : guesses(name)) {
      const Found& group = groups.at(guess.rest);
      const bool usual = group.usual.size() > 1;
      if (!usual && (group.parts.size() < 2 || !group.parts.contains("train"))) continue;
      if (!guess.usual || sounding.kind == Kind::none)
        sounding.kind = usual && guess.usual && sounding.kind != Kind::nearly ? Kind::usual : Kind::nearly;
      sounding.all.emplace_back(guess.part, name);
      rests.insert(guess.rest);
      break;
    }
  sounding.sets = rests.size();
  return sounding;
}

// "trainA", "tr", "fold 3": hardly the name of a class, or of a patient, where nothing else is called otherwise.
SoundingParts nothing_but_parts(const Strings& names) {
  static const std::set<std::string> kFolds = {"fold", "kfold", "cv"}, kPieces = {"split", "part", "subset"};
  const auto all_are = [&](const std::set<std::string>& words) {
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      return words.contains(word_of(name)) && name.find_first_of("0123456789") != std::string::npos;
    });
  };
  SoundingParts sounding;
  if (names.size() < 2) return sounding;
  for (const auto& [words, kind] : {std::pair{&kFolds, Kind::folds}, {&kPieces, Kind::pieces}}) {
    if (!all_are(*words)) continue;
    sounding.kind = kind;
    for (const std::string& name : names) sounding.all.emplace_back("", name);
    return sounding;
  }
  for (const std::string& name : names) {
    std::string part = short_part(word_of(name));
    for (const Guess& guess : guesses(name))
      if (part.empty() && guess.rest.size() <= 1) part = guess.part;
    if (part.empty()) return {};
    sounding.all.emplace_back(part, name);
  }
  sounding.kind = Kind::nearly;
  return sounding;
}

// Of YAML's flow style.
std::string flow_word(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '/' || c == '.' || c == '-';
  });
  if (plain && !text.empty() && text[0] != '-') return printable(text);
  std::string quoted = "\"";
  for (const char c : printable(text)) quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string part_called(std::string_view name) {
  std::string word = letters_of(name);
  for (const std::string_view behind : {"sets", "set", "data", "split"})  // "training data set"
    if (word.size() > behind.size() && word.ends_with(behind)) word.resize(word.size() - behind.size());
  if (word.ends_with('s')) word.pop_back();
  for (const auto& [part, words] :
       {std::pair<const char*, std::vector<std::string_view>>{"train", {"train", "training"}},
        {"valid", {"valid", "val", "validation", "dev"}},
        {"test", {"test", "testing"}}})
    if (std::find(words.begin(), words.end(), word) != words.end()) return part;
  return "";
}

std::string part_within(std::string_view name) {
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find_first_of("_- .", at), name.size());
    if (std::string part = part_called(name.substr(at, end - at)); !part.empty()) return part;
    at = end + 1;
  }
  return "";
}

std::vector<std::pair<std::string, std::string>> SoundingParts::proposal(bool trains) const {
  std::vector<std::pair<std::string, std::string>> folders;
  if (kind == Kind::folds || kind == Kind::pieces) {
    if (trains) folders.emplace_back("train", all.front().second);
    folders.emplace_back("valid", all.back().second);
    return folders;
  }
  for (const char* part : {"train", "valid", "test"}) {
    const std::pair<std::string, std::string>* first = nullptr;
    for (const auto& entry : all)
      if (entry.first == part &&
          (first == nullptr || (!part_within(entry.second).empty() && part_within(first->second).empty())))
        first = &entry;
    if (first != nullptr) folders.push_back(*first);
  }
  return folders;
}

std::vector<std::string> SoundingParts::names() const {
  Strings names;
  for (const auto& [part, name] : all) names.push_back(name);
  return names;
}

SoundingParts parts_among(const std::vector<std::string>& names) {
  SoundingParts sounding = that_differ_in_the_part(names);
  return sounding.kind == Kind::none ? nothing_but_parts(names) : sounding;
}

std::string split_folders_word(const std::vector<std::pair<std::string, std::string>>& folders) {
  Strings parts;
  for (const auto& [part, folder] : folders) parts.push_back(part + ": " + flow_word(folder));
  return shell_word("data.split.folders={" + join(parts, ", ") + "}");
}

}  // namespace dtrain
