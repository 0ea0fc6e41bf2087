#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/metrics/paired.hpp"
#include "dtrain/study/parting.hpp"
#include "dtrain/study/predicted_part.hpp"
#include "dtrain/study/run_record.hpp"
#include "line/command_line.hpp"

namespace dtrain {

/// Something that is not the same in both runs; "" = not there.
struct Difference {
  std::string what;
  std::string a;
  std::string b;
};

/// All that dtrain compare found out.
struct Comparison {
  const CompareCommand& command;
  RunRecord a;
  RunRecord b;
  bool configs_read = false;                 ///< both configurations
  std::vector<Difference> keys = {};         ///< of the configuration, which results depend on
  std::vector<Difference> other_keys = {};   ///< and those that change no result
  std::vector<Difference> facts = {};        ///< data, split, V, program …, which results depend on
  std::vector<Difference> other_facts = {};  ///< processes, hosts, how far the runs are
  std::optional<SharedSamples> samples = {};
  std::vector<NamedPair> values = {};  ///< none where there are no samples
  std::string no_values = {};          ///< why there are none
  std::string monitor = {};            ///< valid.auroc; "" where no configuration says
  bool larger_is_better = true;
  Parting parting = {};
  std::vector<std::string> notes = {};

  /// The column of epochs.csv that the monitor stands for.
  std::string monitored_column() const;
  /// The value of the comparison's first line: that of the monitor, else the first; null where there are none.
  const NamedPair* main_value() const;
};

/// Prints everything for people, then with --json the object.
void print_comparison(const Comparison& comparison);

/// The object of --json, in one line.
std::string comparison_json(const Comparison& comparison);

}  // namespace dtrain
