#include "dtrain/data/batches/batch_maker.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <chrono>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/data/order/substitutes.hpp"
#include "dtrain/data/pixels/transform.hpp"
#include "dtrain/device/flat_math.hpp"

namespace dtrain {

namespace {

void interleaved_to_planes(const std::vector<float>& from, int64_t channels, int64_t plane, float* to) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < plane; ++i) *to++ = from[static_cast<size_t>(i * channels + c)];
}

/// A sample's files, decoded, or the finished picture from the shared memory.
struct Decoded {
  Image picture;
  Image mask;                                     // only for segmentation
  std::optional<KeptPicture> raw = std::nullopt;  // instead of both
};

AugmentDraw draw_of(const BatchRecipe& recipe, const BatchSlot& slot, size_t place) {
  if (!slot.augment_epoch) return {};
  const uint64_t id = recipe.dataset.samples[static_cast<size_t>(slot.batch.samples[place])].id;
  return draw_augmentation(recipe.options.augment, recipe.seed, *slot.augment_epoch, id,
                           slot.repeats.empty() ? 0 : slot.repeats[place]);
}

/// Puts the sample into row `row` of the slot's raw memory, unless that memory's kind cannot hold it; returns the kind
/// that can.
PixelKind place_raw(const BatchRecipe& recipe, const BatchSlot& slot, size_t row, const Decoded& sample) {
  const ImageOptions& size = recipe.options.image;
  const Image& picture = sample.picture;
  const PixelKind needed =
      sample.raw ? sample.raw->kind : pixel_kind({picture.height, picture.width, picture.channels, picture.bits}, size);
  const PixelKind& kind = slot.batch.raw->kind;
  if (!kind.holds(needed)) return needed;
  const auto bytes = static_cast<size_t>(kind.picture_bytes(size));
  const std::span<std::byte> out(slot.raw + row * bytes, bytes);
  const int64_t pixels = size.height * size.width;
  const auto plane = static_cast<size_t>(pixels);
  uint8_t* mask = slot.raw_masks == nullptr ? nullptr : slot.raw_masks + row * plane;
  if (sample.raw) {
    convert_raw(sample.raw->pixels, needed, pixels, kind, out);
    if (mask != nullptr) std::copy_n(sample.raw->mask, plane, mask);
  } else {
    raw_image(picture, size, kind, out);
    if (mask != nullptr) raw_mask(sample.mask, size, recipe.classes, {mask, plane});
  }
  return needed;
}

/// Finishes the sample into row `place` of the slot's memory. Uses no ATen, whose operators would start threads of
/// their own in each of ours.
void place_finished(const BatchRecipe& recipe, const BatchSlot& slot, size_t place, const Decoded& sample) {
  const ImageOptions& size = recipe.options.image;
  const AugmentDraw draw = draw_of(recipe, slot, place);
  const auto raw = [&](const void* pixels, bool bytes, int64_t channels) {
    return RawPicture{pixels, walk_of(draw, size), bytes ? 1 : 0, channels};
  };
  const int64_t values = recipe.plane * size.channels;
  float* out = slot.images + static_cast<int64_t>(place) * values;
  std::vector<float> interleaved;
  const bool in_place = recipe.channels_last || size.channels == 1;
  if (!in_place) interleaved.resize(static_cast<size_t>(values));
  const std::span<float> pixels(in_place ? out : interleaved.data(), static_cast<size_t>(values));
  if (sample.raw) {
    const RawPicture picture = raw(sample.raw->pixels, sample.raw->kind.bytes, sample.raw->kind.channels);
    host_math().finish_pictures(picture_form(size), &picture, 1, pixels.data());
  } else {
    transform_image(sample.picture, size, draw, pixels);
  }
  if (!in_place) interleaved_to_planes(interleaved, size.channels, recipe.plane, out);
  if (slot.masks == nullptr) return;
  const int64_t mask_values = recipe.plane * recipe.classes;
  float* target = slot.masks + static_cast<int64_t>(place) * mask_values;
  if (sample.raw) {
    const RawPicture mask = raw(sample.raw->mask, true, 1);
    host_math().finish_masks(picture_form(size), &mask, 1, recipe.classes, target);
  } else {
    transform_mask(sample.mask, size, draw, recipe.classes, {target, static_cast<size_t>(mask_values)});
  }
}

/// Picture and mask of sample `index`, from the shared memory, or else read and decoded.
Decoded decode(const BatchRecipe& recipe, int64_t index, int64_t batch, Trace& trace, SampleCost& cost) {
  SharedPictures* shared = recipe.delivery.shared;
  if (shared != nullptr)
    if (const std::optional<KeptPicture> kept = shared->find(index)) {
      if (kept->raw) return {{}, {}, kept};
      return {kept->decoded_picture(), kept->mask == nullptr ? Image{} : kept->decoded_mask()};
    }
  const Stopwatch stopwatch;
  auto reading = trace.span("read", batch);
  const SampleFiles files = read_sample_files(recipe.dataset, index);
  reading.end();
  cost.bytes += files.bytes();
  cost.read_s += stopwatch.seconds();
  const auto decoding = trace.span("decode", batch);
  Decoded sample;
  sample.picture = decode_picture(recipe.dataset, index, files);
  if (recipe.dataset.task == Task::segmentation) {
    sample.mask = decode_mask(recipe.dataset, index, files);
    require_same_size(recipe.dataset, index, sample.picture, sample.mask);
  }
  if (shared != nullptr && shared->keep(index, sample.picture, sample.mask))
    if (const std::optional<KeptPicture> kept = shared->find(index); kept->raw) return {{}, {}, kept};
  return sample;
}

/// decode() of the slot's sample `index`, or, if that is bad and may be replaced, of the first good substitute.
Decoded decode_or_replace(const BatchRecipe& recipe, const BatchSlot& slot, int64_t index, Trace& trace,
                          SampleCost& cost) {
  try {
    return decode(recipe, index, slot.number, trace, cost);
  } catch (const DataError& error) {
    if (!slot.may_replace && !slot.augment_epoch && recipe.options.loader.on_bad_sample == BadSample::replace)
      throw DataError(std::string(error.what()) +
                      "; it belongs to a part that is evaluated, where data.loader.on_bad_sample replaces nothing");
    if (!slot.may_replace)
      throw DataError(
          std::string(error.what()) +
          (slot.augment_epoch
               ? "; repair or convert it, or let data.loader.on_bad_sample=replace use other samples instead"
               : "; repair it, convert it or take it out"));
    Substitutes substitutes(recipe.seed, recipe.dataset.samples[static_cast<size_t>(index)].id,
                            *recipe.delivery.substitutes);
    for (int i = 0; i < Substitutes::kMost; ++i) {
      const int64_t other = substitutes.next();
      try {
        Decoded sample = decode(recipe, other, slot.number, trace, cost);
        cost.replaced = Replaced{index, other, error.what()};
        return sample;
      } catch (const DataError&) {
        continue;
      }
    }
    throw DataError(std::string(error.what()) + "; and none of " + std::to_string(Substitutes::kMost) +
                    " other samples that could replace it can be decoded");
  }
}

at::TensorOptions host(const BatchRecipe& recipe, at::ScalarType type) {
  return at::TensorOptions(type).pinned_memory(recipe.delivery.pinned);
}

void give_targets(const BatchRecipe& recipe, BatchSlot& slot) {
  const auto n = static_cast<int64_t>(slot.batch.samples.size());
  const ImageOptions& size = recipe.options.image;
  at::Tensor& targets = slot.batch.targets;
  if (recipe.dataset.task == Task::segmentation) {
    targets = at::empty({n, recipe.classes, size.seen_height(), size.seen_width()}, host(recipe, at::kFloat));
    slot.masks = targets.mutable_data_ptr<float>();
  } else if (recipe.dataset.task == Task::multiclass) {
    targets = at::empty({n}, host(recipe, at::kLong));
    slot.class_indices = targets.mutable_data_ptr<int64_t>();
  } else {
    targets = at::empty({n, recipe.classes}, host(recipe, at::kFloat));
    slot.labels = targets.mutable_data_ptr<float>();
  }
  for (size_t place = 0; place < slot.batch.samples.size(); ++place)
    write_label(recipe, slot, place, slot.batch.samples[place]);
}

void give_finished_memory(const BatchRecipe& recipe, BatchSlot& slot) {
  const ImageOptions& size = recipe.options.image;
  const auto format = recipe.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const auto n = static_cast<int64_t>(slot.places.size());
  slot.batch.images = at::empty({n, size.channels, size.seen_height(), size.seen_width()},
                                host(recipe, at::kFloat).memory_format(format));
  slot.images = slot.batch.images.mutable_data_ptr<float>();
}

void give_raw_memory(const BatchRecipe& recipe, const PixelKind& kind, BatchSlot& slot) {
  const ImageOptions& size = recipe.options.image;
  const auto m = static_cast<int64_t>(slot.places.size());
  RawPictures raw;
  raw.form = picture_form(size);
  raw.classes = recipe.classes;
  raw.kind = kind;
  raw.pixels =
      at::empty({m, size.height, size.width, kind.channels}, host(recipe, kind.bytes ? at::kByte : at::kFloat));
  slot.raw = static_cast<std::byte*>(raw.pixels.mutable_data_ptr());
  if (recipe.dataset.task == Task::segmentation) {
    raw.masks = at::empty({m, size.height, size.width}, host(recipe, at::kByte));
    slot.raw_masks = raw.masks.mutable_data_ptr<uint8_t>();
  }
  raw.places = slot.places;
  for (size_t place = 0; place < slot.batch.samples.size(); ++place)
    raw.walks.push_back(walk_of(draw_of(recipe, slot, place), size));
  slot.batch.raw = std::move(raw);
}

}  // namespace

void write_label(const BatchRecipe& recipe, const BatchSlot& slot, size_t place, int64_t index) {
  const Sample& sample = recipe.dataset.samples[static_cast<size_t>(index)];
  if (slot.class_indices != nullptr) slot.class_indices[place] = sample.class_index;
  if (slot.labels != nullptr)
    std::copy(sample.labels.begin(), sample.labels.end(), slot.labels + place * static_cast<size_t>(recipe.classes));
}

SampleCost make_sample(const BatchRecipe& recipe, const BatchSlot& slot, size_t number, Trace& trace) {
  SampleCost cost;
  if (recipe.delivery.load_s > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(recipe.delivery.load_s));
    return cost;
  }
  const Stopwatch stopwatch;
  if (number >= slot.places.size()) {
    try {
      decode(recipe, slot.sample(number), slot.number, trace, cost);
    } catch (const Error&) {
      // The process that trains on the sample reports it.
    }
  } else {
    const size_t place = slot.places[number];
    const Decoded sample = decode_or_replace(recipe, slot, slot.sample(number), trace, cost);
    if (cost.replaced) write_label(recipe, slot, place, cost.replaced->substitute);
    const auto span = trace.span("transform", slot.number);
    if (slot.batch.raw) {
      cost.needed = place_raw(recipe, slot, number, sample);
    } else {
      place_finished(recipe, slot, place, sample);
    }
  }
  cost.decode_s = stopwatch.seconds() - cost.read_s;
  return cost;
}

std::shared_ptr<BatchSlot> make_slot(const BatchRecipe& recipe, const PixelKind& kind, BatchRequest request) {
  check(!request.may_replace || (recipe.delivery.substitutes != nullptr && !recipe.delivery.substitutes->empty()),
        "where bad samples may be replaced there are others");
  auto slot = std::make_shared<BatchSlot>();
  const PictureCache* cache = recipe.delivery.cache;
  for (size_t place = 0; place < request.samples.size(); ++place)
    if (cache == nullptr || !cache->holds(request.samples[place])) slot->places.push_back(place);
  slot->batch.samples = std::move(request.samples);
  slot->augment_epoch = request.augment_epoch;
  slot->may_replace = request.may_replace;
  slot->repeats = std::move(request.repeats);
  slot->foreign = std::move(request.foreign);
  if (!recipe.delivery.raw || recipe.dataset.task != Task::segmentation) give_targets(recipe, *slot);
  if (recipe.delivery.raw) {
    give_raw_memory(recipe, kind, *slot);
  } else {
    give_finished_memory(recipe, *slot);
  }
  return slot;
}

}  // namespace dtrain
