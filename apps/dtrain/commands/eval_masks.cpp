#include "commands/eval_masks.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

#include "drawing/drawn_sample.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/parallel.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/picture_input.hpp"
#include "dtrain/data/pixels/called_classes.hpp"
#include "dtrain/data/pixels/contact_sheet.hpp"
#include "dtrain/data/pixels/original_mask.hpp"
#include "dtrain/data/pixels/outlines.hpp"
#include "dtrain/data/pixels/transform.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/own_output.hpp"
#include "dtrain/io/pictures/png_text.hpp"
#include "dtrain/metrics/options.hpp"

namespace dtrain {
namespace {

constexpr const char* kMaskMark = "dtrain predicted mask";
constexpr size_t kOfEach = 3;
constexpr Colour kTruth = {64, 224, 96};
constexpr Colour kPredicted = {255, 92, 72};

// A picture of the sheet: its place among the samples, and what it is there for.
struct Case {
  const char* what;
  size_t place;
  double value;
};

// Of equally good pictures the earlier one is the better one.
std::vector<Case> chosen_cases(const Predictions& p, const Metric& metric) {
  std::vector<double> values;
  for (size_t i = 0; i < p.samples(); ++i) {
    PixelCounts counts;
    for (size_t k = 0; k < p.outputs; ++k) counts += p.counts(i, k);
    values.push_back(metric.of_sample(counts));
  }
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return metric.larger_is_better ? values[a] > values[b] : values[a] < values[b];
  });
  const size_t each = std::min(kOfEach, (order.size() + 2) / 3);
  const size_t middle = (order.size() - each) / 2;
  std::map<size_t, const char*> ranks;  // each picture once: of a small part the worst are shown first of all
  for (size_t i = 0; i < each; ++i) ranks.emplace(order.size() - 1 - i, "worst");
  for (size_t i = 0; i < each; ++i) ranks.emplace(i, "best");
  for (size_t i = 0; i < each; ++i) ranks.emplace(middle + i, "median");
  std::vector<Case> cases;
  for (const auto& [rank, what] : ranks) cases.push_back({what, order[rank], values[order[rank]]});
  return cases;
}

}  // namespace

EvalMasks::EvalMasks(const Experiment& e, const Plan& plan, const WeightsOrigin& origin, const std::string& folder,
                     const std::string& split, int64_t threads)
    : image_(e.data.image),
      dataset_(plan.dataset),
      values_(pixel_values_of(dataset_.mask_values.empty() ? origin.mask_values : dataset_.mask_values,
                              static_cast<int64_t>(plan.outputs.size()))),
      folder_(folder + "/masks_" + split),
      cases_(folder + "/cases_" + split + std::string(kMaskEnding)),
      threads_(static_cast<size_t>(threads)),
      threshold_(has_background(loss_in_use(e.loss, e.task), e.task, plan.shape.outputs) ? std::nullopt
                                                                                         : std::optional(0.5)) {
  require_own_stems(dataset_);
}

std::string EvalMasks::path_of(int64_t sample) const {
  return folder_ + "/" + output_stem(dataset_.samples[static_cast<size_t>(sample)].path) + std::string(kMaskEnding);
}

void EvalMasks::require_own(const std::vector<int64_t>& samples) const {
  for (const int64_t sample : samples) require_own_output(path_of(sample), "predicted mask", {kMaskMark});
  require_own_output(cases_, "contact sheet", {kContactSheetMark});
}

void EvalMasks::write(const std::vector<int64_t>& samples, const at::Tensor& probabilities) {
  const at::Tensor host = probabilities.to(at::kFloat).cpu().contiguous();
  const int64_t each = samples.empty() ? 0 : host.numel() / static_cast<int64_t>(samples.size());
  run_in_parallel(samples.size(), threads_, [&](size_t i) {
    write_one(samples[i], host.const_data_ptr<float>() + static_cast<int64_t>(i) * each);
  });
}

void EvalMasks::write_one(int64_t sample, const float* probabilities) {
  const ImageHeader header = dataset_.store->header(dataset_.samples[static_cast<size_t>(sample)]);
  const auto plane = static_cast<size_t>(image_.seen_height() * image_.seen_width());
  std::vector<std::vector<float>> planes;
  for (size_t k = 0; k + 1 < values_.size(); ++k)
    planes.push_back(at_picture_size({probabilities + k * plane, plane}, header.height, header.width, image_));
  const Image mask = mask_of(called_classes(planes, threshold_), header.height, header.width, values_);
  files_.write(path_of(sample), with_png_text(encode_png(mask), "Software", kMaskMark));
}

void write_cases(EvalNetwork& network, const Experiment& e, const EvalResult& result, const std::string& path) {
  const std::vector<int64_t>& samples = result.samples;
  const auto metric = std::ranges::find_if(
      all_metrics(), [&](const Metric* one) { return one->use(e.task) != nullptr && one->of_sample != nullptr; });
  check(metric != all_metrics().end(), "a metric judges single masks");
  const std::vector<Case> cases = chosen_cases(result.predictions, **metric);
  const PictureForm form = picture_form(e.data.image);
  const int64_t line = std::max<int64_t>(1, (std::max(form.height, form.width) + 255) / 256);  // seen on a sheet
  std::vector<SheetRow> rows;
  for (const Case& one : cases) {
    const EvalNetwork::Seen seen = network.look_at(samples, one.place);
    const Image picture = drawn_picture(seen.images, seen.place, e.data.image);
    Image outlined = picture;
    draw_outlines(outlined, drawn_classes(seen.targets[seen.place]), line, [](int64_t) { return kTruth; });
    draw_outlines(outlined, drawn_classes(seen.predicted[seen.place]), line, [](int64_t) { return kPredicted; });
    const std::string figure = (*metric)->name + " " + fixed(one.value, (*metric)->digits);
    rows.push_back(
        {std::string(one.what) + ": " + result.plan.dataset.samples[static_cast<size_t>(samples[one.place])].path,
         {{picture, {}}, {std::move(outlined), {figure}}}});
  }
  const Image sheet = contact_sheet(
      {e.name + ", " + result.command.split + ": " + count_of(static_cast<int64_t>(samples.size()), "picture"),
       "from best to worst"},
      {"picture", "outlines"}, rows, {{"truth", kTruth}, {"predicted, drawn over it", kPredicted}});
  AtomicFile file(path);
  file.write(with_png_text(encode_png(sheet), "Software", kContactSheetMark));
  file.commit();
}

}  // namespace dtrain
