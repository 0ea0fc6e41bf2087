#pragma once
// The split that a message proposes, as its reader would paste it.
#include <map>
#include <string>
#include <vector>

#include "dtrain/base/text.hpp"
#include "dtrain/data/options.hpp"

namespace dtrain::test {

/// "… 'data.split.folders={train: a, test: \"b c\"}' …" → {train: a, test: b c}; empty if there is none.
inline std::map<std::string, std::string> proposed_folders(const std::string& sentence) {
  const std::string key = "data.split.folders={";
  const size_t begin = sentence.find(key);
  std::map<std::string, std::string> folders;
  if (begin == std::string::npos) return folders;
  const size_t from = begin + key.size();
  for (const std::string& entry : split_text(sentence.substr(from, sentence.find('}', from) - from), ',')) {
    const size_t colon = entry.find(": ");
    std::string name = entry.substr(colon + 2);
    std::erase(name, '"');
    folders[std::string(trimmed(entry.substr(0, colon)))] = name;
  }
  return folders;
}

/// As a configuration that names these folders has it: where the training folder is named nothing else validates.
inline void paste(const std::string& sentence, DataOptions& options) {
  options.split.folders = proposed_folders(sentence);
  options.split.given = true;
  if (options.split.folders.contains("train")) options.split.valid = 0;
}

}  // namespace dtrain::test
