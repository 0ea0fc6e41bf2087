#include "line/word_hints.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/habits.hpp"

namespace dtrain {
namespace {

struct Meant {
  const char* typed;
  const char* meant;
};

// Options of other programs; the first that the command has.
constexpr std::array kOptions = {
    Meant{"--cfg", "--config"},
    Meant{"--conf", "--config"},
    Meant{"--config-file", "--config"},
    Meant{"-f", "--config"},
    Meant{"--checkpoint", "--resume PATH' or 'model.weights=FILE"},
    Meant{"--ckpt", "--checkpoint"},
    Meant{"--ckpt", "--resume"},
    Meant{"--ckpt-path", "--checkpoint"},
    Meant{"--ckpt-path", "--resume"},
    Meant{"--weights", "--checkpoint"},
    Meant{"--resume-from", "--resume"},
    Meant{"--resume_from_checkpoint", "--resume"},
    Meant{"--max-steps", "--limit-steps"},
    Meant{"--max_steps", "--limit-steps"},
    Meant{"--steps", "--limit-steps"},
    Meant{"--verbose", "--log-level debug"},
    Meant{"--debug", "--log-level debug"},
    Meant{"-v", "--log-level debug"},
    Meant{"-q", "--quiet"},
    Meant{"-V", "--version"},
    Meant{"--dryrun", "--dry-run"},
    Meant{"--fast-dev-run", "--dry-run"},
    Meant{"--fast_dev_run", "--dry-run"},
};

// Commands of other programs.
constexpr const char* kTrains = "dtrain trains where no command is given, as in dtrain --config FILE";
constexpr const char* kJudges = "did you mean 'eval'? dtrain eval --checkpoint PATH evaluates weights";
constexpr const char* kPredicts =
    "dtrain predict --checkpoint PATH --input PATH --output DIR writes scores and masks of pictures";
constexpr std::array kCommands = {
    Meant{"fit", kTrains},
    Meant{"train", kTrains},
    Meant{"training", kTrains},
    Meant{"run", kTrains},
    Meant{"start", kTrains},
    Meant{"resume", kTrains},
    Meant{"test", kJudges},
    Meant{"evaluate", kJudges},
    Meant{"validate", kJudges},
    Meant{"val", kJudges},
    Meant{"inference", kPredicts},
    Meant{"infer", kPredicts},
    Meant{"benchmark", "dtrain bench measures"},
    Meant{"version", "dtrain --version prints it"},
};

const CLI::App* command_named(const CLI::App& app, const std::string& word) {
  for (const CLI::App* command : app.get_subcommands({}))
    if (command->get_name() == word) return command;
  return nullptr;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string before_equals(const std::string& word) { return word.substr(0, word.find('=')); }

// Plainly meant as one: another program's, or one that is misspelt.
bool sounds_like_a_command(const std::string& word, const CLI::App& app) {
  if (word.empty() || word.find_first_not_of("abcdefghijklmnopqrstuvwxyz") != std::string::npos) return false;
  const auto typed = [&](const Meant& one) { return word == one.typed; };
  return std::any_of(kCommands.begin(), kCommands.end(), typed) || !nearest_word(word, command_names(app)).empty();
}

// The option that the word begins with; null if it is none. -cFILE is -c with its value.
const CLI::Option* option_of(const CLI::App& app, const std::string& word) {
  if (word.starts_with("--")) return app.get_option_no_throw(before_equals(word));
  if (app.get_option_no_throw("-" + before_equals(word)) != nullptr) return nullptr;  // -config is meant as --config
  return app.get_option_no_throw(word.substr(0, 2));
}

// What word processors and web pages make of one or two hyphens: a word that begins with such, with hyphens instead; ""
// for any other word.
std::string with_hyphens(const std::string& word) {
  std::string_view rest = word;
  const auto drop = [&] {
    for (const std::string_view dash : {"‐", "‑", "‒", "–", "—", "―", "−", "-"})
      if (rest.starts_with(dash)) {
        rest.remove_prefix(dash.size());
        return true;
      }
    return false;
  };
  while (drop()) continue;
  const bool changed = rest.size() + 2 < word.size() && !word.starts_with("--");
  return changed && !rest.empty() ? (rest.size() == 1 ? "-" : "--") + std::string(rest) : "";
}

bool is_number(const std::string& word) {
  return word.size() > 1 && (word[1] == '.' || (word[1] >= '0' && word[1] <= '9'));
}

std::string meant_option(const CLI::App& app, const std::string& name) {
  if (app.get_option_no_throw("-" + name) != nullptr) return "-" + name;
  for (const Meant& one : kOptions)
    if (name == one.typed)
      if (const std::string meant = one.meant; app.get_option_no_throw(meant.substr(0, meant.find(' '))) != nullptr)
        return meant;
  return "";
}

// The command words, such as "dtrain eval", that have an option; those of `app`'s siblings and of the whole program.
std::string who_has(const CLI::App& app, const std::string& name) {
  const CLI::App* root = &app;
  while (root->get_parent() != nullptr) root = root->get_parent();
  std::vector<std::string> names;
  if (name.starts_with("--") && root->get_option_no_throw(name) != nullptr) return "training, dtrain without a command";
  for (const CLI::App* command : root->get_subcommands({}))
    if (name.starts_with("--") && command->get_option_no_throw(name) != nullptr)
      names.push_back(command_words(*command));
  return names.size() > 4 ? "" : join_last(names, "and");
}

// A folder that a training run wrote.
bool is_run(const std::filesystem::path& folder) {
  std::error_code unread;
  return std::filesystem::exists(folder / "run.json", unread) ||
         std::filesystem::exists(folder / "best.safetensors", unread) ||
         std::filesystem::is_directory(folder / "checkpoints", unread);
}

// `value`: what follows the option.
std::string of_unknown_option(const CLI::App& app, const std::string& name, const std::string& value) {
  const std::string head = "unknown option " + name;
  const auto meant = [&](const std::string& option) { return head + " (did you mean '" + option + "'?)"; };
  if (const std::string option = meant_option(app, name); !option.empty()) return meant(option);
  const bool has_keys = app.get_option_no_throw("--config") != nullptr;
  const auto as_key = [&](bool misspelt) {
    const std::string key = has_keys ? option_as_key(name, value, misspelt) : "";
    if (key.empty() || key.starts_with("this version")) return key;
    return "keys are written without dashes: " + key;
  };
  const std::string elsewhere = who_has(app, name);
  if (const std::string key = as_key(false); !key.empty() && (elsewhere.empty() || name != "--split"))
    return head + "; " + key;
  if (!elsewhere.empty()) return head + ", which is an option of " + elsewhere;
  if (const std::string near = nearest_word(name, option_names(app)); !near.empty()) return meant(near);
  if (const std::string key = as_key(true); !key.empty()) return head + "; " + key;
  return head + "; see " + command_words(app) + " --help";
}

}  // namespace

std::string command_words(const CLI::App& app) {
  return (app.get_parent() == nullptr ? "" : command_words(*app.get_parent()) + " ") + app.get_name();
}

std::vector<std::string> words_after_help(const std::vector<std::string>& words, const CLI::App& app) {
  std::vector<std::string> left(words.begin() + std::min<std::ptrdiff_t>(1, std::ssize(words)), words.end());
  if (left.empty() || left[0] != "help") return left;
  left.erase(left.begin());
  if (!left.empty() && left[0] == "train") left.erase(left.begin());  // its page is that of the whole program
  const CLI::App* at = &app;
  for (const std::string& word : left) {
    if (word.starts_with('-')) continue;
    at = command_named(*at, word);
    if (at == nullptr) throw UsageError(hint_for_word(word, app, true));
  }
  left.emplace_back("--help");
  return left;
}

void refuse_unknown_options(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* active = &app;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string next = i + 1 < words.size() ? words[i + 1] : "";
    const bool has_value = word.find('=') != std::string::npos;
    if (const CLI::App* command = command_named(*active, word)) {
      active = command;
      continue;
    }
    if (active != &app && active->get_option_no_throw("--config") != nullptr && command_named(app, word) != nullptr)
      throw UsageError("'" + word + "' is a second command after '" + active->get_name() + "'; give one at a time");
    if (word.size() < 2 || word[0] != '-' || is_number(word)) {
      const bool wants_command = active->get_require_subcommand_min() > 0;
      if (wants_command) throw UsageError(hint_for_word(word, *active));
      continue;
    }
    const CLI::Option* option = option_of(*active, word);
    if (option == nullptr) {
      const bool follows = !next.starts_with('-') && next.find('=') == std::string::npos;
      const std::string value = has_value ? word.substr(word.find('=') + 1) : follows ? next : "";
      if (active == &app && sounds_like_a_command(words[0], app)) throw UsageError(hint_for_word(words[0], app));
      throw UsageError(of_unknown_option(*active, before_equals(word), value));
    }
    const bool has_all = has_value ? !word.ends_with('=') : !word.starts_with("--") && word.size() > 2;  // -cFILE
    if (option->get_items_expected_min() == 0 || has_all) continue;
    const bool option_follows = next.starts_with('-') && active->get_option_no_throw(before_equals(next)) != nullptr;
    if (option_follows || has_value)
      throw UsageError(before_equals(word) + " lacks its value (" + option->get_type_name() + ")" +
                       (option_follows ? ": " + next + " is the next option" : ""));
    ++i;
  }
}

std::string hint_for_word(const std::string& word, const CLI::App& app, bool only_commands) {
  const bool has_keys = !only_commands && app.get_option_no_throw("--config") != nullptr;
  const std::string head = "'" + word + "' is " + (has_keys ? "neither a command nor key=value" : "no command");
  for (const Meant& one : kCommands)
    if (word == one.typed && app.get_parent() == nullptr) return head + "; " + one.meant;
  const auto meant = [&](const std::string& what) { return head + " (did you mean '" + what + "'?)"; };
  if (word.empty())
    return "an empty word stands on the command line, perhaps from a variable that is not set; set it, or leave it out";
  if (const std::string option = with_hyphens(word); !option.empty())
    return "'" + word + "' begins with a dash that is no hyphen (did you mean '" + option + "'?)";
  if (const size_t colon = word.find(':'); has_keys && colon != std::string::npos)
    if (const std::string key = option_as_key(word.substr(0, colon), word.substr(colon + 1), false);
        key.find('=') != std::string::npos)
      return meant(key);
  const bool wants_run = app.get_option_no_throw("--checkpoint") != nullptr;
  if (has_keys && is_run(word)) return meant((wants_run ? "--checkpoint " : "--resume ") + word);
  std::vector<std::string> known = command_names(app);
  if (!only_commands)
    for (const std::string& option : option_names(app)) known.push_back(option);
  if (const std::string near = nearest_word(lower_case(word), known); !near.empty()) return meant(near);
  if (const CLI::Option* cam = app.get_option_no_throw("--cam"); cam != nullptr && cam->count() > 0)
    return meant("--cam=" + word);  // its value is optional, so it is joined to it
  std::error_code unread;
  if (has_keys && std::filesystem::is_directory(word, unread)) return meant("data.root=" + word);
  if (word.ends_with(".safetensors"))
    for (const char* option : {"--checkpoint", "--resume"})
      if (app.get_option_no_throw(option) != nullptr) return meant(option + (" " + word));
  if (const std::string key = has_keys ? option_as_key(word, "", true) : ""; !key.empty())
    return key.starts_with("this version") ? head + "; " + key : meant(key);
  std::vector<std::string> others;
  for (const Meant& one : kCommands) others.emplace_back(one.typed);
  if (const std::string near = nearest_word(lower_case(word), others); !near.empty() && app.get_parent() == nullptr)
    for (const Meant& one : kCommands)
      if (near == one.typed) return head + "; " + one.meant;
  const bool of_all = only_commands && app.get_parent() == nullptr;
  return head + "; " + (of_all ? "dtrain help lists them all" : "see " + command_words(app) + " --help");
}

}  // namespace dtrain
