#include "dtrain/train/evaluate.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/metrics/gather.hpp"

namespace dtrain {
namespace {

// Rows of one batch or, gathered, of the whole set; see Predictions for the meaning.
struct Rows {
  at::Tensor loss;
  at::Tensor scores;
  at::Tensor labels;
  at::Tensor pixels;
};

Rows judge(const at::Tensor& logits, const at::Tensor& targets, const Loss& loss, Task task) {
  Rows rows;
  rows.loss = loss.per_sample(logits, targets).to(at::kDouble).cpu();
  if (task == Task::segmentation) {
    const at::Tensor predicted = logits.gt(0);  // probability above one half
    const at::Tensor wanted = targets.gt(0.5);
    const auto count = [](const at::Tensor& mask) { return mask.flatten(2).sum(2, false, at::kLong); };
    rows.pixels = at::stack({count(predicted.logical_and(wanted)), count(predicted), count(wanted)}, 2).cpu();
    return rows;
  }
  rows.scores = loss.probabilities(logits.to(at::kDouble)).cpu();
  rows.labels = task == Task::multiclass ? at::one_hot(targets, logits.size(1)).to(at::kFloat).cpu() : targets.cpu();
  return rows;
}

// The rows of all batches; with none, empty rows of the right shape, so that a rank without batches takes part.
at::Tensor joined(const std::vector<Rows>& batches, at::Tensor Rows::*part, at::IntArrayRef empty,
                  at::ScalarType type) {
  std::vector<at::Tensor> parts;
  for (const Rows& rows : batches) parts.push_back(rows.*part);
  return parts.empty() ? at::empty(empty, type) : at::cat(parts);
}

}  // namespace

std::optional<Predictions> evaluate(Replica& replica, const Loss& loss, Task task, BatchSource& loader,
                                    const std::vector<int64_t>& samples, int64_t batch, Communicator& comm,
                                    Watchdog& watchdog, int64_t step, const std::function<bool()>& stop) {
  const at::NoGradGuard no_grad;
  const auto total = static_cast<int64_t>(samples.size());
  std::vector<BatchRequest> requests;
  std::vector<int64_t> places;
  for (int64_t begin = 0, j = 0; begin < total; begin += batch, ++j) {
    if (j % comm.size() != comm.rank()) continue;
    requests.push_back({});
    for (int64_t place = begin; place < std::min(total, begin + batch); ++place) {
      requests.back().samples.push_back(samples[static_cast<size_t>(place)]);
      places.push_back(place);
    }
  }
  replica.network().eval();
  loader.start(std::move(requests));
  std::vector<Rows> batches;
  int64_t outputs = 0;
  bool stopped = false;
  while (!(stopped = stop())) {
    watchdog.enter(Section::evaluate, step);
    const auto data = loader.next();
    if (!data) break;
    const at::Tensor logits = replica.forward(data->images.to(replica.device().place));
    outputs = logits.size(1);
    batches.push_back(judge(logits, data->targets.to(replica.device().place), loss, task));
  }
  replica.network().train();
  if (any(comm, stopped)) return std::nullopt;
  outputs = largest(comm, outputs);
  Predictions all;
  all.loss = gather_rows(comm, joined(batches, &Rows::loss, {0}, at::kDouble), places, total);
  if (!all.loss.isfinite().all().item<bool>())
    throw DivergedError("the weights of step " + std::to_string(step) +
                        " give a loss that is not finite; lower optimizer.learning_rate or start from other weights");
  if (task == Task::segmentation) {
    all.pixels = gather_rows(comm, joined(batches, &Rows::pixels, {0, outputs, 3}, at::kLong), places, total);
  } else {
    all.scores = gather_rows(comm, joined(batches, &Rows::scores, {0, outputs}, at::kDouble), places, total);
    all.labels = gather_rows(comm, joined(batches, &Rows::labels, {0, outputs}, at::kFloat), places, total);
  }
  return all;
}

static std::vector<double> numbers(const at::Tensor& counts) {
  const at::Tensor host = counts.to(at::kDouble).contiguous();
  const auto* first = host.const_data_ptr<double>();
  return {first, first + host.numel()};
}

LabelCounts label_counts(const Predictions& predictions, int64_t pixels) {
  LabelCounts counts;
  counts.samples = static_cast<double>(predictions.loss.size(0));
  if (predictions.pixels.defined()) {
    counts.samples *= static_cast<double>(pixels);
    const at::Tensor wanted = predictions.pixels.select(2, 2).sum(0).to(at::kDouble);
    counts.positive = numbers(wanted);
    counts.negative = numbers(counts.samples - wanted);
    return counts;
  }
  counts.positive = numbers(predictions.labels.eq(1).sum(0));
  counts.negative = numbers(predictions.labels.eq(0).sum(0));
  return counts;
}

bool nothing_predicted(const Predictions& predictions) {
  if (!predictions.pixels.defined()) return false;
  const at::Tensor sums = predictions.pixels.flatten(0, 1).sum(0);
  return sums[1].item<int64_t>() == 0 && sums[2].item<int64_t>() > 0;
}

}  // namespace dtrain
