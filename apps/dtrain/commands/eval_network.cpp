#include "commands/eval_network.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/checkpoint/tensors.hpp"
#include "dtrain/train/evaluate.hpp"
#include "job/agreement.hpp"
#include "job/planned_parts.hpp"

namespace dtrain {

EvalNetwork::EvalNetwork(const SafetensorsFile& file, const std::string& path, const WeightsOrigin& origin,
                         const Experiment& e, const Plan& plan, Job& job)
    : experiment_(e), plan_(plan), job_(job) {
  replica_ = std::make_unique<Replica>(make_unfilled_network(e.model, plan.shape),
                                       memory_format_for(*e.model.kind, job.device().place.type()), e.optimizer,
                                       job.device(), e.precision);
  fill_tensors(file, path, replica_->model_tensors(origin.prefix));
  std::vector<Fact> facts = facts_of_plan(plan, replica_->network(), "");
  facts.push_back({"tensors of --checkpoint", replica_->sha256(), "see the same files"});
  facts.push_back({"what eval fitted to --checkpoint", fitted_json(origin.fitted), "see the same files"});
  require_agreement(job, facts);
  loader_ = make_planned_loader(e, plan, *replica_, untraced_, job.cores());
  batches_ = std::make_unique<DeviceBatches>(*loader_, job.device());
  loss_ = std::make_unique<Loss>(make_planned_loss(e, plan, job.device().place));
}

Predictions EvalNetwork::predict(const std::vector<int64_t>& samples, const BatchSeen& seen) {
  Evaluation::Seen with_logits;
  if (seen)
    with_logits = [&](const std::vector<int64_t>& of_batch, const at::Tensor& logits) {
      seen(of_batch, loss_->probabilities(logits));
    };
  return *evaluate({.replica = *replica_,
                    .loss = *loss_,
                    .task = experiment_.task,
                    .loader = *batches_,
                    .samples = samples,
                    .batch = plan_.local_batch,
                    .comm = job_.comm(),
                    .watchdog = job_.watchdog(),
                    .with_distances = true,
                    .with_logits = true,
                    .seen = std::move(with_logits)});
}

EvalNetwork::Seen EvalNetwork::look_at(const std::vector<int64_t>& samples, size_t place) {
  const at::NoGradGuard no_grad;
  const auto batch = static_cast<size_t>(plan_.local_batch);
  const auto first = samples.begin() + static_cast<std::ptrdiff_t>(place / batch * batch);
  const size_t count = std::min(batch, static_cast<size_t>(samples.end() - first));
  batches_->start({{{first, first + static_cast<std::ptrdiff_t>(count)}, std::nullopt}});
  const std::optional<Batch> data = batches_->next();
  check(data.has_value(), "the loader makes every batch that it was asked for");
  replica_->network().eval();
  const at::Tensor logits = replica_->forward(data->images.to(job_.device().place));
  replica_->network().train();
  return {data->images.cpu().contiguous(), data->targets.cpu(), predicted_masks(*loss_, logits).cpu(),
          static_cast<int64_t>(place % batch)};
}

void EvalNetwork::apply_temperature(Predictions& p, double temperature) const {
  const auto outputs = static_cast<int64_t>(p.outputs);
  p.scores.clear();
  for (size_t begin = 0; begin < p.logits.size(); begin += static_cast<size_t>(plan_.local_batch * outputs)) {
    const int64_t rows = std::min(plan_.local_batch, static_cast<int64_t>(p.logits.size() - begin) / outputs);
    const at::Tensor logits =
        at::from_blob(p.logits.data() + begin, {rows, outputs}, at::kDouble).to(job_.device().place);
    const at::Tensor scores = loss_->probabilities(logits / temperature).cpu().contiguous();
    const double* first = scores.const_data_ptr<double>();
    p.scores.insert(p.scores.end(), first, first + scores.numel());
  }
}

}  // namespace dtrain
