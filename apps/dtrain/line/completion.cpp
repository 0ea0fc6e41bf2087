#include "line/completion.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/schema.hpp"
#include "line/word_hints.hpp"

namespace dtrain {
namespace {

/// One word that may be typed somewhere, and what it is.
struct Offer {
  std::string word;
  std::string doc;
};

/// What may follow an option.
struct OfferedValues {
  bool any = false;    ///< it takes a value
  bool files = false;  ///< files and folders
  std::vector<std::string> words;
};

struct OptionOffer {
  std::vector<std::string> names;  ///< "-c", "--config"
  std::string doc;
  OfferedValues values;
};

/// All that can be typed after the words `at`, such as "dtrain bench step".
struct CommandOffer {
  std::string at;
  std::vector<Offer> words;  ///< commands, or the words of an argument
  std::vector<OptionOffer> options;
  bool keys = false;
  bool files = false;  ///< as an argument
};

// The values for a type as help pages show it: FILE; auto|never|PATH.
OfferedValues offered_by(const CLI::Option& option) {
  OfferedValues values;
  values.any = option.get_items_expected_min() > 0;
  for (const std::string& word : split_text(option.get_type_name(), '|')) {
    for (const char* files : {"FILE", "DIR", "PATH", "FOLDER", "RUN"})
      if (word == files) values.files = true;
    if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string::npos)
      values.words.push_back(word);
  }
  return values;
}

void collect_offers(const CLI::App& app, std::vector<CommandOffer>& all) {
  CommandOffer offer;
  offer.at = command_words(app);
  for (const CLI::App* command : app.get_subcommands({}))
    offer.words.push_back({command->get_name(), command->get_description()});
  for (const CLI::Option* option : app.get_options()) {
    const OfferedValues values = offered_by(*option);
    if (option->get_positional()) {
      offer.keys = offer.keys || option->get_type_name() == "KEY=VALUE";
      offer.files = offer.files || values.files || offer.keys;  // a configuration may be given without an option
      for (const std::string& word : values.words) offer.words.push_back({word, option->get_description()});
      continue;
    }
    OptionOffer one{{}, option->get_description(), values};
    for (const std::string& name : option->get_snames()) one.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) one.names.push_back("--" + name);
    offer.options.push_back(std::move(one));
  }
  all.push_back(std::move(offer));
  for (const CLI::App* command : app.get_subcommands({})) collect_offers(*command, all);
}

std::vector<Offer> key_offers() {
  Experiment defaults;
  std::vector<Offer> offers;
  for (const Key& key : describe(defaults)) offers.push_back({key.name + "=", key.doc});
  return offers;
}

// The words that a JSON schema lists: of `{"anyOf": [{"enum": ["pad", "crop"]}, {"const": "none"}]}` all three.
void collect_words(const nlohmann::json& schema, std::vector<std::string>& words) {
  const auto add = [&](const nlohmann::json& word) {
    words.push_back(word.is_string() ? word.get<std::string>() : word.dump());
  };
  if (const auto all = schema.find("enum"); all != schema.end()) std::for_each(all->begin(), all->end(), add);
  if (const auto one = schema.find("const"); one != schema.end()) add(*one);
  if (const auto type = schema.find("type"); type != schema.end() && *type == "boolean")
    words.insert(words.end(), {"true", "false"});
  if (const auto parts = schema.find("anyOf"); parts != schema.end())
    for (const nlohmann::json& part : *parts) collect_words(part, words);
}

struct KeyWords {
  std::string key;
  std::vector<std::string> words;  ///< that its value can be
};

std::vector<KeyWords> key_words() {
  Experiment defaults;
  std::vector<KeyWords> all;
  for (const Key& key : describe(defaults)) {
    KeyWords one{key.name, {}};
    collect_words(nlohmann::json::parse(key.codec.json_schema), one.words);
    if (!one.words.empty()) all.push_back(std::move(one));
  }
  return all;
}

// The keys whose value is a path.
std::vector<std::string> path_keys() {
  Experiment defaults;
  std::vector<std::string> keys;
  for (const Key& key : describe(defaults))
    if (key.codec.type == "a path") keys.push_back(key.name);
  return keys;
}

std::string spaced_words(const std::vector<Offer>& offers) {
  std::vector<std::string> words;
  for (const Offer& offer : offers) words.push_back(offer.word);
  return join(words, " ");
}

// `"dtrain check"|"dtrain bench step"`: the words that lead from one command to another.
std::string paths_of(const std::vector<CommandOffer>& all) {
  std::vector<std::string> paths;
  for (const CommandOffer& one : all)
    if (one.at.find(' ') != std::string::npos && one.at != "dtrain help") paths.push_back("\"" + one.at + "\"");
  return join(paths, "|");
}

// The branches `"dtrain check --output"|"dtrain -c") …;;` of options that take a value.
template <class Action>
std::string value_branches(const std::vector<CommandOffer>& all, const Action& action) {
  std::string text;
  for (const CommandOffer& one : all)
    for (const OptionOffer& option : one.options) {
      if (!option.values.any) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) patterns.push_back("\"" + one.at + " " + name + "\"");
      text += "    " + join(patterns, "|") + ") " + action(option.values) + "; return ;;\n";
    }
  return text;
}

std::string bash_script(const std::vector<CommandOffer>& all) {
  std::string text = R"(# dtrain's completion for bash, as `dtrain completion bash` prints it.
_dtrain_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
}
_dtrain_words() { mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "$1" -- "$current"); }
_dtrain() {
  local at=dtrain commands='' options='' keys='' files='' key='' head='' i
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  if [[ $current == '=' ]]; then
    current='' key=$before
  elif [[ $before == '=' ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]} key=$before
  elif [[ $current == *=* ]]; then  # where = does not divide words
    key=${current%%=*} head=$key=
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$at ${COMP_WORDS[i]}" in
      )" + paths_of(all) +
                     R"() at+=" ${COMP_WORDS[i]}" ;;
    esac
  done
  COMPREPLY=()
  if [[ -n $key && -n ${_dtrain_values[$key]} ]]; then
    mapfile -t COMPREPLY < <(compgen -P "$head" -W "${_dtrain_values[$key]}" -- "${current#"$head"}")
    return
  fi
  if [[ -n $key && " $_dtrain_paths " == *" $key "* ]]; then
    [[ -n $head ]] || compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -P "$head" -f -- "${current#"$head"}")
    return
  fi
  case "$at $before" in
)";
  text += value_branches(all, [](const OfferedValues& values) {
    return std::string(values.files ? "_dtrain_files; " : "") + "_dtrain_words '" + join(values.words, " ") + "'";
  });
  text += "  esac\n  case \"$at\" in\n";
  for (const CommandOffer& one : all) {
    std::vector<std::string> options;
    for (const OptionOffer& option : one.options) options.push_back(option.names.back());
    text += "    \"" + one.at + "\") commands='" + spaced_words(one.words) + "' options='" + join(options, " ") + "'" +
            (one.keys ? " keys=$_dtrain_keys" : "") + (one.files ? " files=1" : "") + " ;;\n";
  }
  text += R"(  esac
  if [[ $current == -* || -z $commands$files ]]; then
    _dtrain_words "$options"
    return
  fi
  [[ -n $files ]] && _dtrain_files
  _dtrain_words "$commands"
  [[ -n $current ]] && _dtrain_words "$keys"
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
)";
  text += "_dtrain_keys='" + spaced_words(key_offers()) + "'\n_dtrain_paths='" + join(path_keys(), " ") +
          "'\ndeclare -gA _dtrain_values=(\n";
  for (const KeyWords& one : key_words()) text += "  [" + one.key + "]='" + join(one.words, " ") + "'\n";
  return text + ")\ncomplete -F _dtrain dtrain\n";
}

// "word:doc", as zsh's _describe wants it.
std::string described(const Offer& offer) {
  std::string word = offer.word;
  for (size_t at = word.find(':'); at != std::string::npos; at = word.find(':', at + 2)) word.insert(at, "\\");
  return shell_word(word + ":" + offer.doc);
}

std::string zsh_script(const std::vector<CommandOffer>& all) {
  std::string text = R"(#compdef dtrain
# dtrain's completion for zsh, as `dtrain completion zsh` prints it.
_dtrain() {
  local at=dtrain word before=$words[CURRENT-1]
  local -a commands options
  [[ $words[CURRENT] == *=* ]] && _dtrain_values ${words[CURRENT]%%=*} && return
  for word in ${words[2,CURRENT-1]}; do
    case "$at $word" in
      )" + paths_of(all) +
                     R"() at+=" $word" ;;
    esac
  done
  case "$at $before" in
)";
  text += value_branches(all, [](const OfferedValues& values) {
    return (values.words.empty() ? "" : "compadd -- " + join(values.words, " ") + "; ") +
           (values.files ? "_files" : ":");
  });
  text += "  esac\n  case \"$at\" in\n";
  for (const CommandOffer& one : all) {
    text += "    \"" + one.at + "\")\n      commands=(\n";
    for (const Offer& offer : one.words) text += "        " + described(offer) + "\n";
    text += "      )\n      options=(\n";
    for (const OptionOffer& option : one.options)
      text += "        " + described({option.names.back(), option.doc}) + "\n";
    text += "      )\n      _describe command commands\n      _describe -o option options\n";
    if (one.keys) text += "      [[ -n $words[CURRENT] ]] && _dtrain_keys\n";  // there are many
    if (one.files) text += "      _files\n";
    text += "      ;;\n";
  }
  text += "  esac\n}\n_dtrain_values() {\n  case $1 in\n";
  for (const KeyWords& one : key_words())
    text += "    " + one.key + ") compset -P '*='; compadd -- " + join(one.words, " ") + " ;;\n";
  text += "    " + join(path_keys(), "|") + ") compset -P '*='; _files ;;\n";
  text += "    *) return 1 ;;\n  esac\n}\n_dtrain_keys() {\n  local -a keys=(\n";
  for (const Offer& offer : key_offers()) text += "    " + described(offer) + "\n";
  return text + "  )\n  _describe -t keys key keys -S ''\n}\n(( $+functions[compdef] )) && compdef _dtrain dtrain\n";
}

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string fish_script(const std::vector<CommandOffer>& all) {
  std::string paths = paths_of(all);
  std::replace(paths.begin(), paths.end(), '|', ' ');
  std::string text = R"(# dtrain's completion for fish, as `dtrain completion fish` prints it.
function __dtrain_at
  set -l at dtrain
  for word in (commandline -opc)[2..]
    switch "$at $word"
      case )" + paths +
                     R"(
        set at "$at $word"
    end
  end
  test "$at" = "$argv"
end
function __dtrain_some_keys
  string length -q -- (commandline -ct); and printf '%s\n' $__dtrain_keys
end
function __dtrain_values
  switch (string split -m1 = -- (commandline -ct))[1]
)";
  for (const KeyWords& one : key_words())
    text += "    case " + one.key + "\n      printf '" + one.key + "=%s\\n' " + join(one.words, " ") + "\n";
  text += "  end\nend\ncomplete -c dtrain -f\n";
  for (const CommandOffer& one : all) {
    const std::string head = "complete -c dtrain -n '__dtrain_at " + one.at + "'";
    for (const Offer& offer : one.words) text += head + " -a " + offer.word + " -d " + fish_quoted(offer.doc) + "\n";
    for (const OptionOffer& option : one.options) {
      text += head;
      for (const std::string& name : option.names)
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (option.values.any) text += option.values.files ? " -r -F" : " -x";
      if (!option.values.words.empty()) text += " -a " + fish_quoted(join(option.values.words, " "));
      text += " -d " + fish_quoted(option.doc) + "\n";
    }
    if (one.keys) text += head + " -a '(__dtrain_some_keys) (__dtrain_values)'\n";
    if (one.files) text += head + " -F\n";
  }
  text += "set -g __dtrain_keys";
  for (const Offer& offer : key_offers()) text += " \\\n  " + fish_quoted(offer.word + "\t" + offer.doc);
  return text + "\n";
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  std::vector<CommandOffer> all;
  collect_offers(app, all);
  if (shell == "bash") return bash_script(all);
  return shell == "zsh" ? zsh_script(all) : fish_script(all);
}

}  // namespace dtrain
