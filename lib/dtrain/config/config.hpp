#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dtrain/config/experiment.hpp"

namespace dtrain {

/// Where a configuration comes from, in rising precedence.
struct ConfigSources {
  std::vector<std::string> files;      ///< --config, in order: later ones win
  bool environment = true;             ///< DTRAIN_CONFIG__A__B=value
  std::vector<std::string> overrides;  ///< `a.b=value` of the command line, value parsed as YAML
  std::string stored = "";             ///< YAML that a file of weights holds; comes before `files`
  std::string stored_in = "";          ///< that file
};

/// A configuration that passed every check.
struct Config {
  Experiment experiment;
  /// Every key with an effect → (value as YAML flow text, where it came from: "default", "chexnet.yaml:14",
  /// "DTRAIN_CONFIG__SEED", "command line").
  struct Value {
    std::string text;
    std::string origin;
  };
  std::map<std::string, Value> values;
};

/// Config::Value::origin of a key that no source sets.
constexpr const char* kDefaultOrigin = "default";

/// Reads and checks everything; all errors are found at once. Throws merge_errors(): 78 with one line per error
/// (`chexnet.yaml:14:5: unknown key 'optimizer.lerning_rate' (did you mean 'learning_rate'?)`), 66 for an absent file.
/// No file of the data set is touched here. Limits: 1 MiB and depth 32 per file.
Config load_config(const ConfigSources& sources);

/// Variables of the environment that look like keys but are none, since they do not begin with DTRAIN_CONFIG__, such as
/// DTRAIN_OPTIMIZER_LEARNING_RATE (of keys outside groups only DTRAIN_CONFIG_EPOCHS, since DTRAIN_SEED may be
/// anything): a sentence for each, with the name that sets the key. And those of keys that are empty.
std::vector<std::string> overlooked_variables();

/// The configuration as YAML that loads again to the same experiment; paths absolute.
/// `minimal`: only what differs from the defaults. `origins`: each line ends in a comment that says where it came from.
std::string config_yaml(const Config& config, bool minimal, bool origins);

/// JSON Schema (draft 2020-12) of the configuration, so that editors complete and check.
std::string config_json_schema();

/// docs/configuration.md: every key, its type, default, unit, and what it does.
std::string config_markdown();

/// Keys whose change does not change a run's result (name, output, epochs, loader, bucket size, watchdog …): they are
/// left out of the fingerprint and may differ on resume.
bool key_in_fingerprint(const std::string& key);

/// Key → value of everything that key_in_fingerprint() lets in, paths under data.root without it: two runs whose maps
/// are equal are configured for the same result, and where they are not, the map names the key. Files that paths name
/// (data, lists, model.weights) have hashes of their own.
std::map<std::string, std::string> fingerprint_values(const Config& config);

/// Keys, of the fingerprint or not, that have no effect in this configuration (Key::effective_when), whatever their
/// values: in these it may differ from the run that it resumes.
std::vector<std::string> idle_keys(const Config& config);

/// Gives a configuration the values with which a run was begun, `run` as fingerprint_values() of it or of its
/// checkpoint: of keys whose default has changed since (Key::older_runs_keep), where no source sets them, and of keys
/// that stand at `auto` for what the run found (Key::settled_by_runs), unless `anew` names them. load_config() does so
/// for the configuration that a run has stored.
void keep_values_of_run(Config& config, const std::map<std::string, std::string>& run,
                        const std::vector<std::string>& anew = {});

/// Puts what a beginning run has found in the place of `auto`.
void settle_batch(Config& config, int64_t per_rank);

/// The keys whose default keep_values_of_run() decides in this configuration.
std::vector<std::string> keys_of_the_run(const Config& config);

/// What prevents resuming a run: differences between the configuration it had and the new one.
struct ConfigDifferences {
  std::vector<std::string> unknown;  ///< keys that this program does not have: a newer one wrote the checkpoint
  std::vector<std::string> changed;  ///< "seed was 1 and is now 2"
  bool none() const { return unknown.empty() && changed.empty(); }
};

/// Compares two maps of fingerprint_values(), `then` as a checkpoint holds it. A key that came after the checkpoint
/// counts as the value that does what was done before the key existed (Key::older_runs_had), any other that is in only
/// one map as "not set". Keys outside the fingerprint and those in `may_differ` are ignored.
ConfigDifferences config_differences(const std::map<std::string, std::string>& then,
                                     const std::map<std::string, std::string>& now,
                                     const std::vector<std::string>& may_differ);

}  // namespace dtrain
