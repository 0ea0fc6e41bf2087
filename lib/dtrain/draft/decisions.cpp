#include "dtrain/draft/decisions.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/advice/mask_advice.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/metrics/options.hpp"

namespace dtrain {

namespace {

std::string size_text(int64_t height, int64_t width) { return std::to_string(height) + "×" + std::to_string(width); }

// "512×512 in all 30 pictures", "256×256 in 40 of 60 pictures, others from 256×320 to 520×696"
std::string sizes_text(const Survey& survey) {
  if (survey.sizes.empty()) return "no picture could be read";
  const std::string all = (survey.headers < survey.pictures ? "the " + with_commas(survey.headers) + " looked at"
                                                            : count_of(survey.headers, "picture"));
  const auto most = std::max_element(survey.sizes.begin(), survey.sizes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string common = size_text(most->first.first, most->first.second);
  if (survey.sizes.size() == 1) return common + " in all of " + all;
  const auto& [least_h, least_w] = survey.sizes.begin()->first;
  const auto& [most_h, most_w] = survey.sizes.rbegin()->first;
  return common + " in " + with_commas(most->second) + " of " + all + ", the others from " +
         size_text(least_h, least_w) + " to " + size_text(most_h, most_w);
}

// The largest ratio between two pictures' proportions.
double stretch_of(const Survey& survey) {
  double least = 1e9;
  double most = 0;
  for (const auto& [size, count] : survey.sizes) {
    const double ratio = static_cast<double>(size.first) / static_cast<double>(std::max<int64_t>(size.second, 1));
    least = std::min(least, ratio);
    most = std::max(most, ratio);
  }
  return survey.sizes.empty() ? 1 : most / least;
}

const NetworkKind* network_for(Task task, NetworkKind::ProposedFor pictures) {
  const NetworkKind* any = nullptr;
  for (const NetworkKind* kind : networks()) {
    if (!kind->serves(task)) continue;
    if (kind->proposed_for == pictures) return kind;
    if (any == nullptr) any = kind;
  }
  return any;
}

/// Fills one Drafted, step by step; later steps rest on earlier ones.
class Decider {
 public:
  Decider(const Survey& survey, Task task, Drafted& out)
      : survey_(survey), task_(task), e_(out.experiment), out_(out) {}

  void add(const std::string& key, const std::string& why) { out_.lines.push_back({key, why}); }
  void offer(const std::string& key, const std::string& text, const std::string& why) {
    out_.lines.push_back({key, why, true, text});
  }

  void network() {
    const auto [height, width] = survey_.median_size();
    constexpr int64_t kSmallSide = 128;
    constexpr int64_t kFew = 200;
    const bool small = std::max(height, width) <= kSmallSide;
    const bool few = survey_.pictures < kFew;
    const auto wanted = small || few ? NetworkKind::ProposedFor::few_or_small : NetworkKind::ProposedFor::many;
    e_.model.kind = network_for(task_, wanted);
    if (task_ == Task::segmentation) return add("model.name", "a class for each pixel");
    const NetworkKind* large = network_for(task_, NetworkKind::ProposedFor::many);
    if (small)
      add("model.name", "the pictures are small");
    else if (few)
      add("model.name", count_of(survey_.pictures, "picture") + " are few for a deep network: " + large->name +
                            " needs more, or ImageNet weights (model.weights)");
    else
      add("model.name", with_commas(survey_.pictures) + " pictures of " + size_text(height, width) +
                            "; model.weights starts from ImageNet's");
  }

  void size() {
    const auto [height, width] = survey_.median_size();
    if (height == 0) return;
    ImageOptions& image = e_.data.image;
    const bool deep = e_.model.kind->proposed_for == NetworkKind::ProposedFor::many;
    const int64_t most = task_ == Task::segmentation ? 512 : deep ? 224 : 128;
    const int64_t multiple = side_multiple_of(e_.model);
    constexpr double kLittle = 1.25;
    const double stretch = stretch_of(survey_);
    const double scale = std::min(1.0, static_cast<double>(most) / static_cast<double>(std::max(height, width)));
    const bool own_size = survey_.sizes.size() == 1 && scale == 1;
    const auto fit = [&](int64_t side) {
      const int64_t step = own_size ? multiple : std::max<int64_t>(multiple, 16);
      const auto steps = std::lround(scale * static_cast<double>(side) / static_cast<double>(step));
      return std::max(static_cast<int64_t>(steps) * step, e_.model.kind->least_side);
    };
    image.height = fit(stretch > kLittle ? std::max(height, width) : height);
    image.width = fit(stretch > kLittle ? std::max(height, width) : width);
    if (deep && std::max(height, width) > most) image.height = image.width = most;  // what ImageNet weights know
    std::string why = sizes_text(survey_);
    if (scale < 1) why += "; larger costs time and memory";
    if (multiple > 1) why += "; the network wants multiples of " + std::to_string(multiple);
    add("data.image.size", why);
    if (stretch <= kLittle) return;
    image.resize = Resize::pad;
    add("data.image.resize", "proportions differ by up to a factor of " + fixed(stretch, 1) + "; pad distorts none");
  }

  void channels() {
    ImageOptions& image = e_.data.image;
    if (survey_.decoded == 0 || image.is_stacked()) return;
    const bool colour = survey_.decoded_colour > 0;
    const bool deep = e_.model.kind->proposed_for == NetworkKind::ProposedFor::many;
    image.channels = colour || deep ? 3 : 1;
    const std::string of = " of " + count_of(survey_.decoded, "picture") + " looked at";
    std::string why;
    if (colour)
      why = with_commas(survey_.decoded_colour) + of + (survey_.decoded_colour == 1 ? " has" : " have") + " colours";
    else if (survey_.coloured > 0)
      why = "the files have three channels, but they are equal in all" + of + ": grey";
    else
      why = "all pictures are grey";
    if (!colour && deep) why += ", repeated in three channels, as ImageNet weights need";
    add("data.image.channels", why);
  }

  void range() {
    if (survey_.pixels.depths.size() != 1) return;
    const auto& [bits, depth] = *survey_.pixels.depths.begin();
    const auto fitting = narrow_range(survey_.pixels);
    if (!fitting) return;
    e_.data.image.range_low = static_cast<double>(fitting->first);
    e_.data.image.range_high = static_cast<double>(fitting->second);
    add("data.image.range", "the values of " + count_of(depth.pictures, "picture") + " of " + std::to_string(bits) +
                                " bits lie between " + with_commas(depth.lowest) + " and " +
                                with_commas(depth.highest) + "; dtrain check looks at all");
  }

  void masks() {
    constexpr size_t kMostClasses = 14;
    if (task_ != Task::segmentation || !has_mask_files(e_.data) || survey_.masks == 0 || is_nnunet(e_.data)) return;
    std::map<int64_t, int64_t>& values = e_.data.image_mask.mask_values;
    std::vector<std::string> seen;
    for (const auto& [value, where] : survey_.mask_values)
      if (seen.size() < kMostClasses)
        seen.push_back(std::to_string(value) + " in " + percent_text(where.pixels, survey_.mask_pixels));
    const std::string found = "of the masks of " + count_of(survey_.masks, "picture") +
                              " looked at: " + join(seen, ", ") +
                              (survey_.mask_values.size() > kMostClasses ? " …" : "");
    std::vector<int64_t> classes;
    for (const auto& [value, where] : survey_.mask_values)
      if (value != 0) classes.push_back(value);
    const bool with_zero = survey_.mask_values.contains(0);
    for (size_t i = 0; i < classes.size(); ++i) values[classes[i]] = static_cast<int64_t>(i) + 1;
    if (with_zero && !classes.empty() && classes.size() <= kMostClasses) {
      add("data.image_mask.mask_values", "pixels " + found + "; 0 is background");
      if (classes.size() == 1 && 2 * survey_.mask_values.at(classes[0]).pixels > survey_.mask_pixels) {
        offer("data.image_mask.mask_values", "{0: 1}", "if what you look for is the smaller part, which is 0");
        out_.choices.push_back({"the masks' value " + std::to_string(classes[0]) +
                                    " is taken as the class, and 0, the smaller part, as background",
                                "data.image_mask.mask_values"});
      }
      if (has_ignored_value(values)) offer_ignored();
      return;
    }
    ask_mask_values(classes, found);
  }

  // 255 beside classes that are numbered.
  void offer_ignored() {
    std::map<int64_t, int64_t> others = e_.data.image_mask.mask_values;
    others.erase(255);
    std::vector<std::string> entries;
    for (const auto& [value, number] : others) entries.push_back(std::to_string(value) + ": " + std::to_string(number));
    offer("data.image_mask.mask_values", "{" + join(entries, ", ") + "}",
          "if 255 marks pixels that are not to be judged: they are background then");
    out_.choices.push_back(
        {"the masks' value 255 is taken as a class; beside classes that are numbered it often marks "
         "pixels that are not to be judged",
         "data.image_mask.mask_values"});
  }

  void ask_mask_values(const std::vector<int64_t>& classes, const std::string& found) {
    std::map<int64_t, int64_t>& values = e_.data.image_mask.mask_values;
    const std::string key = "data.image_mask.mask_values";
    out_.to_fill_in.push_back({key + ", which pixel value of the masks is which class: pixels " + found, key});
    constexpr size_t kMostOffered = 4;
    if (classes.empty()) {
      offer(key, "{255: 1}", "pixels " + found + "; give the value of each class");
    } else if (classes.size() > kMostOffered) {
      values = {{classes.back(), 1}};
      offer(key, "{" + std::to_string(classes.back()) + ": 1}",
            "pixels " + found + "; many values come from resizing or compression, or number the objects");
    } else {
      for (const int64_t background : classes) {
        std::vector<std::string> entries;
        for (const int64_t value : classes)
          if (value != background) entries.push_back(std::to_string(value) + ": " + std::to_string(entries.size() + 1));
        offer(key, "{" + join(entries, ", ") + "}",
              "if " + std::to_string(background) + " is background; pixels " + found);
      }
      if (classes.size() == 1) out_.lines.pop_back();
      std::vector<std::string> entries;
      for (const auto& [value, number] : values)
        entries.push_back(std::to_string(value) + ": " + std::to_string(number));
      offer(key, "{" + join(entries, ", ") + "}", "if none of them is background");
    }
    values.clear();
  }

  void training(int64_t samples) {
    const ImageOptions& image = e_.data.image;
    constexpr int64_t kLarge = int64_t{256} * 256;
    constexpr int64_t kLeastSteps = 8;
    const bool heavy = task_ == Task::segmentation || e_.model.kind->proposed_for == NetworkKind::ProposedFor::many;
    int64_t batch = task_ == Task::segmentation && image.height * image.width >= kLarge ? 8 : heavy ? 16 : 32;
    while (batch > 4 && samples / batch < kLeastSteps) batch /= 2;
    batch = std::min(batch, std::max<int64_t>(samples, 1));
    e_.batch.per_rank = batch;
    add("batch.per_rank", "pictures per rank and step, of " + count_of(samples, "training picture"));
    constexpr int64_t kUpdates = 1500;
    const int64_t steps = std::max<int64_t>(1, (samples + batch - 1) / batch);
    e_.epochs = std::clamp<int64_t>((kUpdates + steps - 1) / steps, 5, 100);
    add("epochs", "each of " + count_of(steps, "step") + " on one rank, " + count_of(e_.epochs * steps, "update") +
                      " in all; the best epoch is kept");
    e_.checkpoint.best_monitor = default_monitor(task_);
    add("checkpoint.best.monitor", "which epoch is best");
    if (task_ == Task::segmentation)
      offer("data.augment", "{hflip: 0.5, vflip: 0.5}", "if mirrored pictures look as true as these");
    else
      offer("data.augment", "{hflip: 0.5}",
            "if a mirrored picture is of the same class: not for letters or left and right");
  }

  const Survey& survey() const { return survey_; }

 private:
  const Survey& survey_;
  Task task_;
  Experiment& e_;
  Drafted& out_;
};

}  // namespace

std::string percent_text(int64_t part, int64_t all) {
  const double share = 100.0 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(all, 1));
  return fixed(share, share < 10 ? 1 : 0) + " %";
}

void decide_pictures(const Survey& survey, Task task, Drafted& out) {
  Decider decider(survey, task, out);
  decider.network();
  decider.size();
  decider.channels();
  decider.range();
}

void decide_training(const Survey& survey, Task task, int64_t samples, Drafted& out) {
  Decider decider(survey, task, out);
  decider.masks();
  decider.training(samples);
}

}  // namespace dtrain
