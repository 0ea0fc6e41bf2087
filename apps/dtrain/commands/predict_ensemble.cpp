#include "commands/predict_ensemble.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

PredictEnsemble::PredictEnsemble(std::vector<std::unique_ptr<PredictMember>> members, Job& job)
    : members_(std::move(members)), job_(job) {
  require_alike();
  for (const auto& member : members_) {
    const auto sees_alike = [&](const std::unique_ptr<View>& view) {
      const PredictMember& other = *view->members.front();
      return other.pictures() == member->pictures() && other.memory_format() == member->memory_format();
    };
    auto view = std::find_if(views_.begin(), views_.end(), sees_alike);
    if (view == views_.end()) view = views_.insert(view, std::make_unique<View>());
    (*view)->members.push_back(member.get());
  }
}

static std::string values_of(const PredictMember& member) {
  std::vector<std::string> values;
  for (const int64_t value : member.pixel_values()) values.push_back(std::to_string(value));
  return join(values, ", ");
}

void PredictEnsemble::require_alike() const {
  std::map<std::string, std::string> weights;  // by hash
  for (const auto& member : members_) {
    const Task task = member->experiment().task;
    if (task != first().experiment().task)
      throw DataError(member->weights() + " is for " + name_of(task) + ", but " + first().weights() + " for " +
                      name_of(first().experiment().task) + "; only networks of one task can be averaged");
    if (member->classes() != first().classes())
      throw DataError(member->weights() + " has the classes " + join(member->classes(), ", ") + ", but " +
                      first().weights() + " has " + join(first().classes(), ", ") +
                      "; only networks with the same classes in the same order can be averaged");
    if (task == Task::segmentation && members_.size() > 1 && member->pixel_values() != first().pixel_values())
      throw DataError(
          member->weights() + " was trained on masks of the pixel values " + values_of(*member) + ", but " +
          first().weights() + " on " + values_of(first()) +
          " (the background, then each class); only networks that mean the same by a class can be averaged");
    const auto [other, is_new] = weights.emplace(member->sha256(), member->weights());
    if (!is_new)
      throw UsageError(member->weights() + " holds the same weights as " + other->second + "; name each network once");
  }
}

void PredictEnsemble::open(const std::string& input, const std::string& column, const std::string& left_out) {
  for (const auto& view : views_) {
    open_view(*view, input, column, left_out);
    if (view->input.dataset.manifest_sha256 != dataset().manifest_sha256)
      throw DataError("the pictures of --input '" + input + "' change while they are read; start again");
  }
  if (!job_.is_root()) return;
  for (const std::string& note : views_.front()->input.notes) job_.log().info(note);
  for (const std::string& note : views_.front()->input.left_out) job_.log().warning(note);
}

void PredictEnsemble::open_view(View& view, const std::string& input, const std::string& column,
                                const std::string& left_out) {
  const PredictMember& member = *view.members.front();
  const Experiment& host = first().experiment();
  DataOptions data = host.data;
  data.image = member.pictures();
  data.augment = {};
  data.loader.threads = loader_threads(host.data.loader, host.distributed.threads, job_.cores());
  view.input = open_pictures(input, column, left_out, data);
  Delivery delivery;
  delivery.pinned = delivery.raw = !job_.device().place.is_cpu();
  view.loader =
      std::make_unique<Loader>(view.input.dataset, data, host.seed, member.memory_format(), untraced_, delivery);
  view.batches = std::make_unique<DeviceBatches>(*view.loader, job_.device());
}

Image PredictEnsemble::picture(int64_t index) const {
  const PictureInput& input = views_.front()->input;
  Image picture = read_picture(input.dataset, index);
  input.pictures->take(input.dataset.samples[static_cast<size_t>(index)]);  // what decoding it has noted again
  return picture;
}

void PredictEnsemble::start(const std::vector<BatchRequest>& requests) {
  for (const auto& view : views_) view->batches->start(requests);
}

PredictEnsemble::Said::Part PredictEnsemble::say(const View& view, const Batch& batch, int64_t number) const {
  Said::Part part{&view.members.front()->pictures(), {}, {}};
  for (PredictMember* member : view.members) {
    const PredictMember::Said said = member->say(batch.images, number);
    if (!said.probabilities.isfinite().all().item<bool>())
      throw DivergedError(member->weights() + " gives probabilities that are not finite, as for " +
                          view.input.dataset.samples[static_cast<size_t>(batch.samples.front())].path +
                          " or the pictures after it; use other weights");
    part.probabilities = part.probabilities.defined() ? part.probabilities + said.probabilities : said.probabilities;
    if (said.maps.defined()) part.maps.push_back(said.maps);
  }
  return part;
}

std::optional<PredictEnsemble::Said> PredictEnsemble::next(int64_t number) {
  const at::NoGradGuard no_grad;
  Said all;
  for (const auto& view : views_) {
    const std::optional<Batch> batch = view->batches->next();
    if (!batch) return std::nullopt;
    all.samples = batch->samples;
    all.found.resize(batch->samples.size());
    for (size_t i = 0; i < batch->samples.size(); ++i) {
      const Sample& sample = view->input.dataset.samples[static_cast<size_t>(batch->samples[i])];
      ListedPictures::Found found = view->input.pictures->take(sample);
      found.off_range = found.off_range || all.found[i].off_range;
      if (all.found[i].bad.empty()) all.found[i] = std::move(found);  // bad for one is bad for all
    }
    all.parts.push_back(say(*view, *batch, number));
  }
  return all;
}

}  // namespace dtrain
