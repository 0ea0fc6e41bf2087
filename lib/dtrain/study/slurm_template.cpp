#include "dtrain/study/slurm_template.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {
namespace {

constexpr const char* kSbatch = "#SBATCH";

std::string after_the_last_slash(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_shell_line(const std::string& line) {
  constexpr std::array kShells = {"sh", "bash", "dash", "ksh", "zsh"};
  if (!line.starts_with("#!")) return false;
  std::vector<std::string> words;
  for (const std::string& word : split_text(line.substr(2), ' '))
    if (!word.empty()) words.push_back(after_the_last_slash(word));
  if (words.size() > 1 && words.front() == "env") words.erase(words.begin());
  return !words.empty() && std::find(kShells.begin(), kShells.end(), words.front()) != kShells.end();
}

// The program that a line of a shell starts in this place, if it is one that a template has no use for.
std::string starts_what(const std::string& line) {
  constexpr std::array kEnds = {"srun", "mpirun", "mpiexec", "orterun", "ibrun", "sbatch", "dtrain", "exec", "exit"};
  const std::string word = after_the_last_slash(split_text(trimmed(line), ' ').front());
  return std::find(kEnds.begin(), kEnds.end(), word) != kEnds.end() ? word : "";
}

std::vector<std::pair<std::string, std::string>> numbers_of(const SlurmArray& array) {
  return {{"{nodes}", std::to_string(array.nodes)},
          {"{ranks}", std::to_string(array.ranks)},
          {"{ranks_per_node}", std::to_string(array.ranks_per_node)}};
}

std::string filled(std::string line, const SlurmArray& array) {
  for (const auto& [place, number] : numbers_of(array))
    for (size_t at = line.find(place); at != std::string::npos; at = line.find(place))
      line.replace(at, place.size(), number);
  return line;
}

}  // namespace

SlurmTemplate read_template(const std::string& text, const std::string& name) {
  std::vector<std::string> lines = split_text(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  if (lines.empty() || !is_shell_line(lines.front()))
    throw ConfigError(name + ":1: a batch script begins with '#!/bin/bash' or another shell like sh");
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::string place = name + ":" + std::to_string(i + 1) + ": ";
    if (const std::string what = starts_what(lines[i]); !what.empty())
      throw ConfigError(place + "'" + what +
                        "' has no place in a template: it has #SBATCH lines, modules and settings, and dtrain sweep "
                        "adds the line that trains");
    const std::string known = filled(lines[i], {});
    if (const size_t brace = known.find('{'); lines[i].starts_with(kSbatch) && brace != std::string::npos)
      throw ConfigError(place + "'" + known.substr(brace, known.find('}', brace) - brace + 1) +
                        "' stands for nothing; {nodes}, {ranks} and {ranks_per_node} do");
  }
  return {lines.front(), {lines.begin() + 1, lines.end()}};
}

std::vector<std::string> lines_for(const SlurmTemplate& site, const SlurmArray& array) {
  std::vector<std::string> lines;
  for (const std::string& line : site.lines) lines.push_back(line.starts_with(kSbatch) ? filled(line, array) : line);
  return lines;
}

std::vector<std::string> sbatch_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : split_text(text, '\n')) {
    if (line.starts_with(kSbatch)) lines.push_back(line);
    if (!trimmed(line).empty() && !line.starts_with('#')) break;
  }
  return lines;
}

}  // namespace dtrain
