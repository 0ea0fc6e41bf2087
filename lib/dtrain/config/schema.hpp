#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/rows.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/codec.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/config/experiment.hpp"

namespace dtrain {

/// One key of the configuration, bound to its field of one Experiment. Reader, printer, documentation, JSON schema and
/// fingerprint all work from this one description.
struct Key {
  std::string name;  ///< dotted: "optimizer.learning_rate"
  Codec codec;
  std::string doc;                     ///< one sentence, with unit
  std::string default_text;            ///< for the documentation, where the default depends on other keys
  std::string only_when;               ///< "`data.format` is csv"; "" = always has an effect
  bool has_effect = true;              ///< with the experiment's present values
  std::vector<std::string> selectors;  ///< keys that decide has_effect
  /// The same of effective_when().
  std::string idle_unless;
  bool idle = false;
  std::vector<std::string> idle_selectors;
  bool in_fingerprint = true;
  /// What the key counts as in a checkpoint that does not have it: the value, as it is printed, that does what was done
  /// before the key existed. "": the key is of the first release (tests/support/reference/first_release_keys.txt), and
  /// a checkpoint without it is refused.
  std::string in_older_runs;
  /// Its default has changed since: older runs keep in_older_runs unless they are told otherwise.
  bool kept_by_runs = false;
  /// The word in whose place a run puts a value when it begins; "": there is none.
  std::string settled_word;

  Key(std::string key, Codec its_codec, std::string its_doc)
      : name(std::move(key)), codec(std::move(its_codec)), doc(std::move(its_doc)) {}
  /// If it has no effect the key is refused, and neither printed nor in the fingerprint.
  Key& only(bool effect, const std::string& when, std::vector<std::string> by);
  /// The same for a key that only some rows read; `chosen` is the row that GROUP.name names.
  template <class Row>
  Key& only_of(const Row& chosen, const RowList<Row>& rows) {
    const size_t dot = name.find('.');
    const std::string own = name.substr(dot + 1), selector = name.substr(0, dot) + ".name";
    return only(reads(chosen, own), "`" + selector + "` is " + join_last(readers_of(rows, own), "or"), {selector});
  }
  /// If it has no effect any value but its default is refused. Its default is accepted and printed, as in
  /// configurations of runs from before this rule: they load as they are, and keep their fingerprint. Not for keys
  /// about ranks or the machine: one file serves a laptop and a cluster.
  Key& effective_when(bool effect, const std::string& when, std::vector<std::string> by);
  Key& default_is(const std::string& text);
  Key& outside_fingerprint();
  /// Not always the default: the default may be better than what was done before.
  Key& older_runs_had(const std::string& value);
  /// The same for a key whose default is no longer that: whoever resumes or evaluates such a run without naming the key
  /// gets what the run began with (keep_values_of_run()), not a refusal.
  Key& older_runs_keep(const std::string& value);
  /// `word` stands for what a run finds when it begins. Who resumes it with that word gets what it found
  /// (keep_values_of_run()).
  Key& settled_by_runs(const std::string& word);
};

/// Every key, in the order of the documentation. `experiment` must outlive the result; has_effect is as of this call.
std::vector<Key> describe(Experiment& experiment);
/// Of these model and loss.
std::vector<Key> describe_model(Experiment& experiment);
/// Its last part: optimizer, schedule, distributed, checkpoint, output.
std::vector<Key> describe_training(Experiment& experiment);

/// Of these the keys of single formats: data.csv, data.tfrecord and so on.
std::vector<Key> describe_formats(DataOptions& data);

/// Of these data.augment.
std::vector<Key> describe_augmentation(AugmentOptions& augment, const ImageOptions& image);

/// A group and the sentence that introduces it in the documentation, in order.
struct Group {
  std::string name;  ///< "" for the top level
  std::string doc;
  bool may_be_none = false;  ///< `GROUP: none` undoes its keys, as an empty group does: by default it is off
};
const std::vector<Group>& groups();

/// config_differences() by these keys.
ConfigDifferences config_differences(const std::vector<Key>& keys, const std::map<std::string, std::string>& then,
                                     const std::map<std::string, std::string>& now,
                                     const std::vector<std::string>& may_differ);

}  // namespace dtrain
