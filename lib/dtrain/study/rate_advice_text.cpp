#include <algorithm>
#include <cmath>

#include "dtrain/base/text.hpp"
#include "dtrain/study/rate_advice.hpp"
#include "dtrain/study/report/sentences.hpp"

namespace dtrain {
namespace {

using Words = std::vector<std::string>;

// After the point: four, or as many as show three figures of a small loss.
int digits_for(const RateAdvice& advice) {
  constexpr double kLeast = 4;
  constexpr double kMost = 8;
  const double loss = std::abs(advice.baseline.loss.mean.value_or(1));
  return static_cast<int>(loss > 0 ? std::clamp(2 - std::floor(std::log10(loss)), kLeast, kMost) : kMost);
}

std::string signed_text(double difference, int digits) {
  const std::string text = fixed(difference, digits);
  return difference >= 0 ? "+" + text : text;
}

std::string seeds_text(const AdviceAsked& asked) {
  return asked.seeds > 1 ? " (mean ± sd of " + count_of(asked.seeds, "seed") + ")" : " (one seed)";
}

std::string keys_text(const RateRule& rule) {
  return "schedule.scale_with_ranks: " + rule.scale + " and schedule.warmup: " + rule.warmup;
}

std::string compared_with_one(const RateAdvice& advice) {
  const AdvisedRule& choice = advice.rules[*advice.choice];
  const double more = *choice.loss.mean - *advice.baseline.loss.mean;
  const double margin = advice.margin(choice, advice.baseline);
  const int digits = digits_for(advice);
  const std::string one = "the " + spread_text(advice.baseline.loss, digits) + " of V = 1";
  if (!advice.noise)
    return "Against " + one + " that is " + signed_text(more, digits) +
           "; one seed says nothing about chance: --repeat 3 does.";
  const std::string chance = fixed(margin, digits) + " that chance between seeds explains";
  if (more > margin)
    return "No rule keeps the loss of V = 1: the chosen one is worse than " + one + " by " + fixed(more, digits) +
           " (" + fixed(100 * more / std::abs(*advice.baseline.loss.mean), 0) + " %), more than the " + chance +
           ". More epochs, fewer logical ranks or a smaller batch.per_rank may; no rule makes up for too few updates.";
  if (more < -margin)
    return "That is better than " + one + " by " + fixed(-more, digits) + ", more than the " + chance +
           ": the base rate may be too " + (choice.rule.scale == "none" ? "high" : "low") +
           " for V = 1, or the larger batch helps.";
  return "That keeps " + one + ": the difference of " + signed_text(more, digits) + " is within the " + chance + ".";
}

// Rules that cannot be told from the chosen one.
Words as_good(const RateAdvice& advice) {
  Words names;
  for (size_t i = 0; i < advice.rules.size(); ++i)
    if (i != *advice.choice && advice.as_good(advice.rules[i])) names.push_back(advice.rules[i].rule.text());
  return names;
}

std::string about_present(const RateAdvice& advice) {
  const AdvisedRule& choice = advice.rules[*advice.choice];
  const RateRule& present = advice.asked.present;
  if (choice.rule == present) return "That is what the configuration has: nothing is to be changed.";
  for (const AdvisedRule& rule : advice.rules) {
    if (rule.rule != present) continue;
    const std::string has = "The configuration has " + present.text();
    if (rule.diverged > 0) return has + ", which diverged.";
    if (!rule.sound()) return has + ", whose runs are not all finished.";
    if (advice.noise && advice.as_good(rule)) return has + ", which is as good: it need not be changed.";
    const bool unsteady = advice.standard_error(rule) > 1.5 * advice.standard_error(choice);
    return has + ", whose loss is " + signed_text(*rule.loss.mean - *choice.loss.mean, digits_for(advice)) +
           " against the chosen one's" + (unsteady ? ", and differs more between seeds." : ".");
  }
  return "";
}

Words diverged_rules(const RateAdvice& advice) {
  Words names;
  for (const AdvisedRule& rule : advice.rules)
    if (rule.diverged > 0)
      names.push_back(rule.rule.text() + " (" + std::to_string(rule.diverged) + " of " +
                      count_of(advice.asked.seeds, "seed") + ")");
  return names;
}

std::string at_the_end(const RateAdvice& advice) {
  const std::string& scale = advice.rules[*advice.choice].rule.scale;
  if (scale == "linear" && as_good(advice).empty())
    return "It is the largest rate that was tried: a larger optimizer.learning_rate may do more.";
  if (scale == "none" && as_good(advice).empty())
    return "It is the smallest rate that was tried: a smaller optimizer.learning_rate may do more.";
  return "";
}

std::string what_is_not_known(const AdviceAsked& asked) {
  const int64_t left = asked.of_epochs - asked.epochs;
  return "What this does not know: " +
         (left > 0 ? "what the remaining " + count_of(left, "epoch") + " of " + std::to_string(asked.of_epochs) +
                         " do, and a decay that begins later; "
                   : std::string()) +
         "other base rates, batches and optimizers. Short runs favour rules that learn fast at once; epochs=N makes "
         "them longer, and a full run with a few seeds confirms.";
}

std::string why_no_choice(const RateAdvice& advice) {
  if (advice.baseline.diverged > 0)
    return "No advice: V = 1 diverges with its own rate; a smaller optimizer.learning_rate comes first.";
  if (!advice.baseline.sound()) return "No advice: not all runs of V = 1 are finished.";
  return "No advice: no rule has runs that are all finished without diverging.";
}

}  // namespace

std::vector<std::string> sentences_on(const RateAdvice& advice) {
  if (!advice.choice) return {why_no_choice(advice)};
  const AdvisedRule& choice = advice.rules[*advice.choice];
  Words sentences = {"For V = " + std::to_string(choice.ranks) + " set " + keys_text(choice.rule) +
                     ". Of the rules that were tried it has the best validation loss in " +
                     count_of(advice.asked.epochs, "epoch") + ", " + spread_text(choice.loss, digits_for(advice)) +
                     seeds_text(advice.asked) + (advice.noise ? ", its standard error counted." : ".")};
  sentences.push_back(compared_with_one(advice));
  if (const Words others = as_good(advice); !others.empty() && advice.noise)
    sentences.push_back("As good, as far as these seeds can tell: " + join(others, "; ") + ".");
  if (const std::string present = about_present(advice); !present.empty()) sentences.push_back(present);
  if (const Words lost = diverged_rules(advice); !lost.empty())
    sentences.push_back("Diverged: " + join(lost, "; ") + ".");
  if (const std::string end = at_the_end(advice); !end.empty()) sentences.push_back(end);
  sentences.push_back(what_is_not_known(advice.asked));
  return sentences;
}

std::vector<std::vector<std::string>> advice_table(const RateAdvice& advice, const std::string& column) {
  std::vector<Words> table = {{"rule", "V", "runs", "lowest valid_loss", "against V = 1", "best " + column}};
  const int digits = digits_for(advice);
  const auto add = [&](const AdvisedRule& rule, const std::string& name) {
    const bool both = rule.sound() && advice.baseline.sound();
    const std::string verdict = rule.diverged > 0 ? "diverged: " + std::to_string(rule.diverged)
                                : both            ? signed_text(*rule.loss.mean - *advice.baseline.loss.mean, digits)
                                                  : "";
    table.push_back({name, std::to_string(rule.ranks), std::to_string(rule.loss.count + rule.diverged),
                     spread_text(rule.loss, digits), &rule == &advice.baseline ? "" : verdict,
                     spread_text(rule.best, 4)});
  };
  add(advice.baseline, "base rate");
  for (const AdvisedRule& rule : advice.rules) add(rule, rule.rule.text());
  return table;
}

std::string advice_yaml(const RateAdvice& advice, const std::string& column) {
  const AdvisedRule& choice = advice.rules[*advice.choice];
  std::string text =
      "# Written by dtrain sweep --advise. It goes after the configuration: dtrain --config F --config "
      "advice.yaml\n#\n";
  for (const std::string& sentence : sentences_on(advice)) text += "# " + sentence + "\n";
  text += "#\n";
  for (const Words& row : advice_table(advice, column)) text += "# " + join(row, " | ") + "\n";
  return text + "schedule:\n  scale_with_ranks: " + choice.rule.scale + "\n  warmup: " + choice.rule.warmup +
         "\ndistributed:\n  logical_ranks: " + std::to_string(choice.ranks) + "\n";
}

}  // namespace dtrain
