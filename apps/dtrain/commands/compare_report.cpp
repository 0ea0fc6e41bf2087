// What dtrain compare prints for people.
#include "commands/compare_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string_view>

#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"

namespace dtrain {
namespace {

constexpr int kLabelColumns = 28;   // of a key or a time, at least
constexpr int kMetricColumns = 12;  // of a metric, at least
constexpr int kValueColumns = 60;   // of a key's value, at most
constexpr size_t kMostEpochs = 12;  // of the table of epochs
constexpr double kLevel = 0.05;

std::string trimmed(const std::string& text) { return text.substr(0, text.find_last_not_of(' ') + 1); }
void line(const std::string& text) { std::printf("%s\n", text.c_str()); }

std::string signed_number(double value, int digits) { return (value < 0 ? "" : "+") + fixed(value, digits); }

std::string p_text(double p, bool at_most) {
  constexpr double kSmallest = 0.001;
  if (p < kSmallest) return "< 0.001";
  return std::string(at_most ? "<= " : "") + fixed(p, p < 0.1 ? 4 : 3);
}
std::string p_text(const PairedTest& test) { return p_text(test.p, test.p_at_most); }

std::string basis_text(const NamedPair& value, const std::string& noun) {
  return value.paired.test->method + ", " + count_of(value.paired.groups, noun);
}

std::string shown_value(const std::string& value) {
  return value.empty() ? "–" : cut_middle(printable(value), kValueColumns);
}

// Of a hash, what it is of, and as many of its digits as tell it from others.
constexpr std::string_view kHash = "_sha256";
std::string shown_name(const Difference& one) {
  return printable(one.what.ends_with(kHash) ? one.what.substr(0, one.what.size() - kHash.size()) : one.what);
}
std::string shown_side(const Difference& one, const std::string& value) {
  constexpr size_t kDigits = 12;
  return shown_value(one.what.ends_with(kHash) ? value.substr(0, kDigits) : value);
}

void print_differences(const std::string& head, const std::vector<Difference>& differences) {
  if (differences.empty()) return;
  line("  " + head);
  std::vector<std::string> names;
  for (const Difference& one : differences) names.push_back(shown_name(one));
  const int columns = cell_columns(names, kLabelColumns);
  names = cells(names, columns);
  for (size_t i = 0; i < names.size(); ++i)
    line("    " + names[i] + " " + shown_side(differences[i], differences[i].a) + " → " +
         shown_side(differences[i], differences[i].b));
}

std::string difference_sentence(const Comparison& c) {
  std::vector<std::string> what;
  std::vector<std::string> keys;
  for (const Difference& one : c.keys) keys.push_back(printable(one.what));
  constexpr size_t kMostNamed = 4;
  if (!keys.empty()) {
    const size_t more = keys.size() > kMostNamed ? keys.size() - kMostNamed : 0;
    keys.resize(keys.size() - more);
    what.push_back(count_of(static_cast<int64_t>(c.keys.size()), "key") + " (" + join(keys, ", ") +
                   (more > 0 ? " and " + std::to_string(more) + " more" : "") + ")");
  }
  for (const Difference& one : c.facts) what.push_back(shown_name(one));
  const bool known = !c.a.texts.empty() && !c.b.texts.empty();
  if (!what.empty()) return "They differ in " + join_last(what, "and") + ".";
  return c.configs_read && known ? "Nothing differs that a result depends on: configuration, data, split, V, program."
                                 : "Nothing was found to differ, but not everything could be read (see below).";
}

std::string result_sentence(const Comparison& c) {
  const std::string a = c.a.text("result_sha256");
  const std::string b = c.b.text("result_sha256");
  if (!a.empty() && a == b) return "Their results are the same in every bit (" + a.substr(0, 12) + ").";
  if (c.parting.both == 0) return "";
  if (!c.parting.first)
    return "Their training losses are the same in every bit in all " + count_of(c.parting.both, "step") +
           " that both have.";
  return "Their training losses part at step " + with_commas(*c.parting.first) + ".";
}

std::string main_comparison(const Comparison& c, const NamedPair& main) {
  const int digits = main.metric->digits;
  const auto shown = [&](const std::optional<double>& value) { return value ? fixed(*value, digits) : "undefined"; };
  std::string text =
      c.command.split + " " + printable(main.name) + ": " + shown(main.paired.a) + " → " + shown(main.paired.b);
  if (!main.paired.test) return text + (main.paired.no_test.empty() ? "." : " (no test: " + main.paired.no_test + ").");
  const PairedTest& test = *main.paired.test;
  text += ", " + signed_number(test.difference, digits) + " (95 %: " + signed_number(test.low, digits) + " to " +
          signed_number(test.high, digits) + ", p " + (test.p < 0.001 || test.p_at_most ? "" : "= ") + p_text(test) +
          ", " + basis_text(main, c.samples->groups.noun) + "): ";
  if (test.p >= kLevel) return text + "this may be chance.";
  return text + ((test.difference > 0) == main.metric->larger_is_better ? "B is better." : "A is better.");
}

std::string main_sentence(const Comparison& c) {
  const NamedPair* main = c.main_value();
  if (main == nullptr) return "";
  const std::string chosen_by =
      c.monitor.ends_with("." + main->name)
          ? ""
          : " (The best weights were chosen by " + printable(c.monitor) + ", of which there is no paired test.)";
  return main_comparison(c, *main) + chosen_by;
}
void print_differences(const Comparison& c) {
  if (c.keys.empty() && c.facts.empty() && c.other_keys.empty() && c.other_facts.empty()) return;
  line("");
  line("what differs (A → B)");
  print_differences("configuration, which results depend on:", c.keys);
  print_differences("data, program and start, which results depend on:", c.facts);
  print_differences("configuration that changes no result:", c.other_keys);
  print_differences("where and how far they ran:", c.other_facts);
}

std::string value_line(const std::string& name, const NamedPair& value, const Groups& groups, bool corrected) {
  const PairedMeasure& paired = value.paired;
  const int digits = value.metric->digits;
  const auto shown = [&](const std::optional<double>& one) { return one ? fixed(*one, digits) : "–"; };
  std::string text = "  " + name + " " + cell(shown(paired.a), 7) + " " + cell(shown(paired.b), 7);
  if (!paired.test) return text + " no test: " + (paired.no_test.empty() ? value.metric->undefined : paired.no_test);
  const PairedTest& test = *paired.test;
  return text + " " + cell(signed_number(test.difference, digits), 8) + " " +
         cell(signed_number(test.low, digits) + " to " + signed_number(test.high, digits), 19) + " " +
         cell(p_text(test), 9) + " " +
         (corrected ? cell(test.p_holm ? p_text(*test.p_holm, test.p_at_most) : "", 9) + " " : "") +
         (value.paired.groups == groups.count ? test.method : basis_text(value, groups.noun));
}

void print_values(const Comparison& c) {
  line("");
  if (!c.samples) {
    line("metrics: none; " + shown(c.no_values));
    return;
  }
  const Groups& groups = c.samples->groups;
  const auto count = static_cast<int64_t>(c.samples->a.samples());
  std::string head =
      "metrics on the " + count_of(count, "sample") + " of the " + c.command.split + " part that both predicted";
  if (groups.noun != "sample") head += ", of " + count_of(groups.count, groups.noun);
  if (c.samples->only_a + c.samples->only_b > 0)
    head += "; left out: " + with_commas(c.samples->only_a) + " that only A has, " + with_commas(c.samples->only_b) +
            " that only B has";
  line(head);
  std::vector<const NamedPair*> shown;
  std::vector<std::string> names;
  for (const NamedPair& value : c.values) {
    if (value.metric->in_table && value.name != value.metric->name) continue;
    shown.push_back(&value);
    names.push_back(printable(value.name));
  }
  const int columns = cell_columns(names, kMetricColumns);
  const bool corrected = std::any_of(shown.begin(), shown.end(), [](const NamedPair* value) {
    return value->paired.test && value->paired.test->p_holm;
  });
  line("  " + cell("", columns) + " A       B       B − A    95 % interval       p         " +
       (corrected ? "p (Holm)  " : "") + "test");
  bool drawn = false;
  names = cells(names, columns);
  for (size_t i = 0; i < shown.size(); ++i) {
    const NamedPair* value = shown[i];
    line(value_line(names[i], *value, groups, corrected));
    drawn = drawn || (value->paired.test && value->metric->of_pair == nullptr);
  }
  line("  Paired: each test is of the difference on the same samples" +
       std::string(groups.noun == "sample" ? "." : ", those of one patient taken together."));
  if (drawn) line("  bootstrap: " + count_of(c.command.draws, "draw") + " of " + groups.noun + "s, the same for both.");
  const auto lines = static_cast<double>(
      std::count_if(shown.begin(), shown.end(), [](const NamedPair* value) { return value->paired.test.has_value(); }));
  if (corrected) line("  p (Holm): corrected for the number of classes that a metric has a test for (Holm 1979).");
  if (lines > 1)
    line("  Each p is for one line alone, not corrected for their number: of " + fixed(lines, 0) +
         " lines without a true difference " + fixed(lines * kLevel, 1) + " have p < 0.05 on average.");
}

std::string percent(double share) {
  if (std::isnan(share)) return "no number in one of them";
  if (const double all = 100 * share; all >= 10 && all < 1e6) return with_commas(std::llround(all)) + " %";
  char text[32];
  std::snprintf(text, sizeof text, "%.2g %%", 100 * share);
  return text;
}

void print_parting(const Parting& parting) {
  if (parting.both == 0) {
    line("  no training step is in both");
    return;
  }
  if (!parting.first) {
    line("  the training loss has the same bits in all " + count_of(parting.both, "step") + " that both have");
    return;
  }
  line("  training loss: " +
       (parting.same == 0 ? std::string("other bits from the first step on")
                          : "the same bits in " + count_of(parting.same, "step") + "; they part at step " +
                                with_commas(*parting.first)) +
       ", by " + percent(parting.first_apart));
  if (parting.largest > 0)
    line("  farthest apart at step " + with_commas(parting.largest) + ", by " + percent(parting.largest_apart));
  line("  at step " + with_commas(parting.last) + ", the last that both have: " + short_number(parting.last_a, 6) +
       " → " + short_number(parting.last_b, 6));
}

// Rows of epochs.csv that both have, thinned out evenly; the last one stays.
std::vector<std::pair<size_t, size_t>> common_epochs(const NumberTable& a, const NumberTable& b) {
  std::vector<std::pair<size_t, size_t>> common;
  std::map<std::optional<double>, size_t> of_b;
  for (size_t j = 0; j < b.rows(); ++j) of_b.emplace(b.at(j, "epoch"), j);
  for (size_t i = 0; i < a.rows(); ++i)
    if (const auto found = of_b.find(a.at(i, "epoch")); found != of_b.end()) common.emplace_back(i, found->second);
  const size_t every = (common.size() + kMostEpochs - 1) / kMostEpochs;
  std::vector<std::pair<size_t, size_t>> some;
  for (size_t i = 0; i < common.size(); ++i)
    if ((common.size() - 1 - i) % every == 0) some.push_back(common[i]);
  return some;
}

void print_epochs(const Comparison& c) {
  const auto epochs = common_epochs(c.a.epochs, c.b.epochs);
  if (epochs.empty()) return;
  std::vector<std::string> columns = {"train_loss", "valid_loss"};
  if (!c.monitor.empty() && c.monitored_column() != "valid_loss") columns.push_back(c.monitored_column());
  std::string head = "  epoch";
  for (const std::string& column : columns) head += "   " + cell(printable(column) + " A, B", 22);
  line(trimmed(head));
  for (const auto& [i, j] : epochs) {
    std::string text = "  " + cell(shortest(c.a.epochs.at(i, "epoch").value_or(0)), 5);
    for (const std::string& column : columns) {
      const auto shown = [&](const NumberTable& table, size_t row) {
        const std::optional<double> value = table.at(row, column);
        return cell(value ? short_number(*value, 5) : "–", 10);
      };
      text += "   " + shown(c.a.epochs, i) + "  " + shown(c.b.epochs, j);
    }
    line(trimmed(text));
  }
}

void print_best(const Comparison& c) {
  if (c.monitor.empty()) return;
  const auto a = best_epoch(c.a.epochs, c.monitored_column(), c.larger_is_better);
  const auto b = best_epoch(c.b.epochs, c.monitored_column(), c.larger_is_better);
  const auto shown = [](const std::optional<BestEpoch>& best) {
    return best ? short_number(best->value, 4) + " (epoch " + std::to_string(best->epoch) + ")" : std::string("–");
  };
  if (a || b) line("  best " + printable(c.monitor) + ": " + shown(a) + " → " + shown(b));
}

void print_time(const Comparison& c) {
  const RunTimes a = times_of(c.a);
  const RunTimes b = times_of(c.b);
  const auto best_a = best_epoch(c.a.epochs, c.monitored_column(), c.larger_is_better);
  const auto best_b = best_epoch(c.b.epochs, c.monitored_column(), c.larger_is_better);
  const auto elapsed = [](const auto& best) { return best ? best->elapsed_s : std::nullopt; };
  bool any = false;
  const auto row = [&](const std::string& name, std::optional<double> of_a, std::optional<double> of_b, int digits,
                       const std::string& unit) {
    if (!of_a && !of_b) return;
    if (!any) {
      line("");
      line("time");
      line("  " + cell("", kLabelColumns) + " A                B                B ÷ A");
      any = true;
    }
    const auto shown = [&](const std::optional<double>& value) {
      const bool long_time = value && unit == " s" && *value >= 600;
      return cell(!value ? "–" : long_time ? clock_text(*value) : fixed(*value, digits) + unit, 16);
    };
    const bool both = of_a && of_b && *of_a > 0;
    line("  " + cell(printable(name), kLabelColumns) + " " + shown(of_a) + " " + shown(of_b) + " " +
         (both ? fixed(*of_b / *of_a, 2) : "–"));
  };
  const auto share = [](const RunTimes& times) {
    return times.data_wait_share ? std::optional(100 * *times.data_wait_share) : std::nullopt;
  };
  row("whole run", a.elapsed_s, b.elapsed_s, 1, " s");
  if (!c.monitor.empty()) row("to the best " + c.monitor, elapsed(best_a), elapsed(best_b), 1, " s");
  row("epoch, median", a.epoch_s, b.epoch_s, 2, " s");
  row("step", a.step_ms, b.step_ms, 2, " ms");
  row("training", a.images_per_s, b.images_per_s, 1, " images/s");
  row("waiting for data", share(a), share(b), 1, " %");
  row("evaluation, median", a.valid_s, b.valid_s, 2, " s");
}

}  // namespace

void print_comparison(const Comparison& c) {
  line("A: " + printable(c.a.folder));
  line("B: " + printable(c.b.folder));
  line("");
  for (const std::string& sentence : {difference_sentence(c), result_sentence(c), main_sentence(c)})
    if (!sentence.empty()) line(sentence);
  for (const std::string& note : c.notes) line("note: " + printable(note));
  print_differences(c);
  print_values(c);
  line("");
  line("losses");
  print_parting(c.parting);
  print_epochs(c);
  print_best(c);
  print_time(c);
  line("");
  line("next: dtrain report " + printable(shell_word(c.a.folder) + " " + shell_word(c.b.folder)) +
       " --output DIR draws the curves of both");
  if (c.command.json) line(printable(comparison_json(c)));
}

}  // namespace dtrain
