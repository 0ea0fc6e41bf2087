#include <algorithm>
#include <cmath>

#include "dtrain/metrics/measure.hpp"

namespace dtrain {
namespace {

struct RankedSample {
  double score;
  bool positive;
  size_t sample;
};

// The samples of one score, and what counts down to them: a threshold at this score takes them all.
struct TieBlock {
  size_t end = 0;        // behind its last sample, from the best on; it begins where the one before ends
  double positives = 0;  // of its own
  double taken = 0;      // samples down to its last one
  double found = 0;      // positives among them

  double precision() const { return found / taken; }
};

// How far the samples of one group pull the value away from where it is: its derivative by their weight.
struct PrecisionPull {
  double positives = 0;
  double negatives = 0;
  double of_positives = 0;
  double of_negatives = 0;
  bool out_of_order = false;  // a positive at or below a negative, or such a negative
};

struct OutputPrecision {
  double value = 0;
  std::vector<PrecisionPull> groups;  // none where nobody asks how sure it is
};

// Of output `k`, those with a known label, the best first; none where a score is not a number.
std::vector<RankedSample> ranked(const Predictions& p, size_t k) {
  std::vector<RankedSample> samples;
  for (size_t i = 0; i < p.samples(); ++i) {
    if (std::isnan(p.score(i, k))) return {};
    if (!std::isnan(p.label(i, k))) samples.push_back({p.score(i, k), p.label(i, k) == 1, i});
  }
  std::stable_sort(samples.begin(), samples.end(),
                   [](const RankedSample& a, const RankedSample& b) { return a.score > b.score; });
  return samples;
}

std::vector<TieBlock> tie_blocks(const std::vector<RankedSample>& samples) {
  std::vector<TieBlock> blocks;
  double found = 0;
  for (size_t i = 0; i < samples.size();) {
    TieBlock block;
    for (block.end = i; block.end < samples.size() && samples[block.end].score == samples[i].score; ++block.end)
      block.positives += samples[block.end].positive ? 1 : 0;
    i = block.end;
    found += block.positives;
    block.taken = static_cast<double>(block.end);
    block.found = found;
    blocks.push_back(block);
  }
  return blocks;
}

// From the worst sample on, because one more sample changes the precision at every positive at or below it.
std::vector<PrecisionPull> pulls_of(const std::vector<RankedSample>& samples, const std::vector<TieBlock>& blocks,
                                    double value, const Groups& groups) {
  std::vector<PrecisionPull> pulls(static_cast<size_t>(groups.count));
  const double all = blocks.back().found;
  double gain = 0;  // of one more positive, in the precisions at or below it
  double loss = 0;  // of one more negative
  for (size_t b = blocks.size(); b-- > 0;) {
    const TieBlock& block = blocks[b];
    gain += block.positives * (1 - block.precision()) / block.taken;
    loss += block.positives * block.precision() / block.taken;
    for (size_t i = b > 0 ? blocks[b - 1].end : 0; i < block.end; ++i) {
      PrecisionPull& pull = pulls[static_cast<size_t>(groups.of[samples[i].sample])];
      if (samples[i].positive) {
        pull.positives += 1;
        pull.of_positives += (block.precision() - value + gain) / all;
        pull.out_of_order = pull.out_of_order || block.precision() < 1;
      } else {
        pull.negatives += 1;
        pull.of_negatives -= loss / all;
        pull.out_of_order = pull.out_of_order || loss > 0;
      }
    }
  }
  return pulls;
}

std::optional<OutputPrecision> precision_of_output(const Predictions& p, size_t k, const Groups* groups) {
  const std::vector<RankedSample> samples = ranked(p, k);
  const std::vector<TieBlock> blocks = tie_blocks(samples);
  if (blocks.empty() || blocks.back().found == 0) return std::nullopt;
  OutputPrecision output;
  for (const TieBlock& block : blocks) output.value += block.positives * block.precision();
  output.value /= blocks.back().found;
  if (groups != nullptr) output.groups = pulls_of(samples, blocks, output.value, *groups);
  return output;
}

// Each group's share in the variance if samples of one group were alike: the two sides' parts, by the squares of sizes.
void add_shares_of_pulls(const OutputPrecision& output, std::vector<double>& shares) {
  PrecisionPull squares;
  for (const PrecisionPull& g : output.groups) {
    squares.positives += g.positives * g.positives;
    squares.negatives += g.negatives * g.negatives;
    squares.of_positives += g.of_positives * g.of_positives;
    squares.of_negatives += g.of_negatives * g.of_negatives;
  }
  for (size_t i = 0; i < shares.size(); ++i) {
    const PrecisionPull& g = output.groups[i];
    shares[i] += squares.of_positives * g.positives * g.positives / squares.positives;
    if (squares.negatives > 0) shares[i] += squares.of_negatives * g.negatives * g.negatives / squares.negatives;
  }
}

// What the interval of one output, or of the mean over several, is made of.
struct PrecisionSpread {
  double value = 0;
  double variance = 0;
  int64_t groups = 0;        // with a known label of any output
  int64_t out_of_order = 0;  // of them
  bool one_sided = false;    // an output's positives are all of one group
  std::vector<double> shares;
};

PrecisionSpread precision_spread(const std::vector<OutputPrecision>& outputs) {
  PrecisionSpread spread;
  const auto count = static_cast<double>(outputs.size());
  spread.shares.resize(outputs.front().groups.size());
  for (const OutputPrecision& output : outputs) {
    spread.value += output.value / count;
    spread.one_sided = spread.one_sided || std::count_if(output.groups.begin(), output.groups.end(),
                                                         [](const PrecisionPull& g) { return g.positives > 0; }) < 2;
    add_shares_of_pulls(output, spread.shares);
  }
  for (size_t i = 0; i < spread.shares.size(); ++i) {
    double pull = 0;
    bool known = false;
    bool out_of_order = false;
    for (const OutputPrecision& output : outputs) {
      const PrecisionPull& g = output.groups[i];
      pull += (g.of_positives + g.of_negatives) / count;
      known = known || g.positives + g.negatives > 0;
      out_of_order = out_of_order || g.out_of_order;
    }
    spread.variance += pull * pull;
    spread.groups += known ? 1 : 0;
    spread.out_of_order += out_of_order ? 1 : 0;
  }
  const auto groups = static_cast<double>(spread.groups);
  if (spread.groups > 1) spread.variance *= groups / (groups - 1);
  return spread;
}

Confidence precision_confidence(const std::vector<OutputPrecision>& outputs, const std::string& noun) {
  const PrecisionSpread spread = precision_spread(outputs);
  Confidence confidence;
  confidence.groups = spread.groups;
  if (spread.groups < kLeastGroups) {
    confidence.no_interval = too_few(spread.groups, noun);
  } else if (spread.one_sided) {
    confidence.no_interval =
        "all positives" + std::string(outputs.size() > 1 ? " of an output" : "") + " are in one " + noun;
  } else if (spread.out_of_order < kLeastGroups) {
    confidence.no_interval =
        (noun == "sample" ? "out of order are " : "samples out of order are in ") + too_few(spread.out_of_order, noun);
  } else if (spread.variance <= 0) {
    confidence.no_interval = "the scores do not vary";
  } else {
    confidence.interval = logit_interval(spread.value, spread.variance, t_quantile(degrees_of(spread.shares)));
    confidence.interval->method = "infinitesimal jackknife";
  }
  return confidence;
}

Measured measured_precision(const std::vector<OutputPrecision>& outputs, const Groups* groups) {
  if (outputs.empty()) return {};
  double sum = 0;
  for (const OutputPrecision& output : outputs) sum += output.value;
  Measured measured{sum / static_cast<double>(outputs.size()), {}};
  if (groups != nullptr) measured.confidence = precision_confidence(outputs, groups->noun);
  return measured;
}

// One for each output, and their mean over those that are defined. Where classes have none of their own there are two,
// and the second stands for both.
MetricValues average_precision_of(const Predictions& p, bool each_class, const Groups* groups) {
  MetricValues values;
  std::vector<OutputPrecision> defined;
  for (size_t k = each_class ? 0 : p.outputs - 1; k < p.outputs; ++k) {
    std::vector<OutputPrecision> one;
    if (auto output = precision_of_output(p, k, groups)) one.push_back(std::move(*output));
    if (each_class) values.classes.push_back(measured_precision(one, groups));
    defined.insert(defined.end(), one.begin(), one.end());
  }
  values.all = measured_precision(defined, groups);
  return values;
}

}  // namespace

extern const Metric kAveragePrecision = {
    .name = "average_precision",
    .uses = {{Task::multilabel, 1}, {Task::multiclass, 3}},
    .undefined = "this part lacks positive samples",
    .of_part = average_precision_of,
    .of_ranks = true,
};

}  // namespace dtrain
