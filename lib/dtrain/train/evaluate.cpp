#include "dtrain/train/evaluate.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtrain/base/error.hpp"
#include "dtrain/data/batches/epoch_requests.hpp"
#include "dtrain/data/pixels/called_classes.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/metrics/surface.hpp"
#include "dtrain/train/gather.hpp"

namespace dtrain {
namespace {

// The rows of one batch, with the meaning that they have in Predictions. pixels: int64 [n, K, 3], in the order of
// PixelCounts; distances and logits: undefined unless they are wanted.
struct Rows {
  at::Tensor loss;  // its mean part
  at::Tensor sums;  // [n, 3·K]: Loss::sums, undefined without any
  at::Tensor logits;
  at::Tensor scores;
  at::Tensor labels;
  at::Tensor pixels;
  at::Tensor distances;
};

// [n, K] from masks [n, K, H, W].
at::Tensor distances_between(const at::Tensor& predicted, const at::Tensor& wanted) {
  const at::Tensor one = predicted.to(at::kByte).cpu().contiguous();
  const at::Tensor other = wanted.to(at::kByte).cpu().contiguous();
  const int64_t height = one.size(2), width = one.size(3);
  const auto plane = static_cast<size_t>(height * width);
  at::Tensor distances = at::empty({one.size(0), one.size(1)}, at::kDouble);
  auto* out = distances.mutable_data_ptr<double>();
  for (size_t i = 0; i < static_cast<size_t>(distances.numel()); ++i)
    out[i] = hausdorff_95({one.const_data_ptr<uint8_t>() + i * plane, plane},
                          {other.const_data_ptr<uint8_t>() + i * plane, plane}, height, width)
                 .value_or(std::nan(""));
  return distances;
}

Rows judge(const at::Tensor& logits, const at::Tensor& targets, const Evaluation& e) {
  const Loss& loss = e.loss;
  Rows rows;
  rows.loss = loss.mean_part(logits, targets).to(at::kDouble).cpu();
  if (loss.needs_sums()) rows.sums = loss.sums(logits, targets).flatten(1).cpu();
  if (e.task == Task::segmentation) {
    const at::Tensor predicted = predicted_masks(loss, logits);
    const at::Tensor wanted = targets.gt(0.5);
    const auto count = [](const at::Tensor& mask) { return mask.flatten(2).sum(2, false, at::kLong); };
    rows.pixels = at::stack({count(predicted.logical_and(wanted)), count(predicted), count(wanted)}, 2).cpu();
    if (e.with_distances) rows.distances = distances_between(predicted, wanted);
    return rows;
  }
  const at::Tensor exact = logits.to(at::kDouble);
  rows.scores = loss.probabilities(exact).cpu();
  if (e.with_logits) rows.logits = exact.cpu();
  rows.labels = e.task == Task::multiclass ? at::one_hot(targets, logits.size(1)).to(at::kFloat).cpu() : targets.cpu();
  return rows;
}

// The rows of all batches; without batches, empty rows of the right shape, so that such a rank can take part.
at::Tensor joined(const std::vector<Rows>& batches, at::Tensor Rows::*part, at::IntArrayRef empty,
                  at::ScalarType type) {
  std::vector<at::Tensor> parts;
  for (const Rows& rows : batches) parts.push_back(rows.*part);
  return parts.empty() ? at::empty(empty, type) : at::cat(parts);
}

template <class T>
std::vector<T> numbers(const at::Tensor& rows) {
  const at::Tensor host = rows.contiguous();
  const T* first = host.const_data_ptr<T>();
  return {first, first + host.numel()};
}

// Every three numbers are one PixelCounts.
std::vector<PixelCounts> pixel_counts(const std::vector<int64_t>& rows) {
  std::vector<PixelCounts> counts;
  for (size_t i = 0; i + 2 < rows.size(); i += 3) counts.push_back({rows[i], rows[i + 1], rows[i + 2]});
  return counts;
}

}  // namespace

std::optional<Predictions> evaluate(const Evaluation& e) {
  const at::NoGradGuard no_grad;
  Communicator& comm = e.comm;
  const auto total = static_cast<int64_t>(e.samples.size());
  std::vector<BatchRequest> requests = dealt_requests(e.samples, e.batch, comm.rank(), comm.size());
  std::vector<int64_t> places;
  for (int64_t begin = comm.rank() * e.batch; begin < total; begin += comm.size() * e.batch)
    for (int64_t place = begin; place < std::min(total, begin + e.batch); ++place) places.push_back(place);
  e.replica.network().eval();
  e.loader.start(std::move(requests));
  std::vector<Rows> batches;
  int64_t outputs = 0;
  bool stopped = false;
  while (!(stopped = e.stop())) {
    e.watchdog.enter(Section::evaluate, e.step);
    const auto data = e.loader.next();
    if (!data) break;
    const at::Tensor logits = e.replica.forward(data->images.to(e.replica.device().place));
    outputs = e.task == Task::segmentation ? data->targets.size(1) : logits.size(1);
    if (e.seen) e.seen(data->samples, logits);
    batches.push_back(judge(logits, data->targets.to(e.replica.device().place), e));
  }
  e.replica.network().train();
  if (any(comm, stopped)) return std::nullopt;
  outputs = largest(comm, outputs);
  const auto whole = [&](at::Tensor Rows::*part, at::IntArrayRef empty, at::ScalarType type) {
    return gather_rows(comm, joined(batches, part, empty, type), places, total);
  };
  Predictions all;
  all.task = e.task;
  all.outputs = static_cast<size_t>(outputs);
  at::Tensor losses = whole(&Rows::loss, {0}, at::kDouble);
  if (e.loss.needs_sums())  // the part is the batch, and its loss each sample's
    losses = losses + e.loss.of_sums(whole(&Rows::sums, {0, 3 * outputs}, at::kDouble).sum(0).view({-1, 3}));
  if (!losses.isfinite().all().item<bool>())
    throw DivergedError(
        "the weights of step " + std::to_string(e.step) +
        " give a loss that is not finite; lower optimizer.learning_rate or start from different weights");
  all.loss = numbers<double>(losses);
  if (e.task == Task::segmentation) {
    all.pixels = pixel_counts(numbers<int64_t>(whole(&Rows::pixels, {0, outputs, 3}, at::kLong)));
    if (e.with_distances) all.distances = numbers<double>(whole(&Rows::distances, {0, outputs}, at::kDouble));
  } else {
    if (e.with_logits) all.logits = numbers<double>(whole(&Rows::logits, {0, outputs}, at::kDouble));
    all.scores = numbers<double>(whole(&Rows::scores, {0, outputs}, at::kDouble));
    all.labels = numbers<float>(whole(&Rows::labels, {0, outputs}, at::kFloat));
  }
  return all;
}

at::Tensor predicted_masks(const Loss& loss, const at::Tensor& logits) {
  // Of one class it is the sign that counts; of several, probabilities, which are equal where logits need not be.
  if (logits.size(1) == 1) return logits.gt(0);
  return called_masks(loss.probabilities(logits).to(at::kFloat), loss.has_background(logits.size(1)));
}

LabelCounts label_counts(const Predictions& predictions, int64_t pixels, bool background) {
  const size_t outputs = predictions.outputs;
  LabelCounts counts{std::vector<double>(outputs, 0), std::vector<double>(outputs, 0),
                     static_cast<double>(predictions.samples())};
  const bool masks = !predictions.pixels.empty();
  if (masks) counts.samples *= static_cast<double>(pixels);
  for (size_t i = 0; i < predictions.samples(); ++i)
    for (size_t k = 0; k < outputs; ++k) {
      if (masks) {
        counts.positive[k] += static_cast<double>(predictions.counts(i, k).wanted);
        continue;
      }
      counts.positive[k] += predictions.label(i, k) == 1 ? 1 : 0;
      counts.negative[k] += predictions.label(i, k) == 0 ? 1 : 0;
    }
  for (size_t k = 0; masks && k < outputs; ++k) counts.negative[k] = counts.samples - counts.positive[k];
  if (background) {
    const double all = std::accumulate(counts.positive.begin(), counts.positive.end(), 0.0);
    counts.positive.insert(counts.positive.begin(), counts.samples - all);
    counts.negative.insert(counts.negative.begin(), all);
  }
  return counts;
}

bool nothing_predicted(const Predictions& predictions) {
  PixelCounts sum;
  for (const PixelCounts& counts : predictions.pixels) sum += counts;
  return sum.predicted == 0 && sum.wanted > 0;
}

}  // namespace dtrain
