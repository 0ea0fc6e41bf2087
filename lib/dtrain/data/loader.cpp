#include "dtrain/data/loader.hpp"

#include <ATen/ATen.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/data/transform.hpp"

namespace dtrain {

namespace {

/// A batch in the making. Threads take its samples one by one and write into its memory; nobody else touches a place
/// that is claimed. A slot lives as long as a thread works on it, even when start() has dropped it.
struct Slot {
  Batch batch;
  int64_t number = 0;  // of the batch, since start()
  std::optional<int64_t> augment_epoch;
  std::vector<size_t> places;  // of the samples to be made, in the batch
  float* images = nullptr;
  float* masks = nullptr;    // segmentation: the targets' memory
  std::byte* raw = nullptr;  // or the memory of raw pictures
  uint8_t* raw_masks = nullptr;
  PixelKind needed;    // by the raw pictures made so far: where it is not held, the batch is made anew
  size_t claimed = 0;  // of `places`
  size_t finished = 0;
  std::exception_ptr error;  // of the first sample, in batch order, that failed
  size_t error_number = std::numeric_limits<size_t>::max();

  bool ready() const { return finished == places.size(); }
};

/// What does not change while the loader lives.
struct Recipe {
  const Dataset& dataset;
  DataOptions options;
  uint64_t seed;
  bool channels_last;
  Delivery delivery;
  int64_t classes;
  int64_t plane;  // pixels of one channel
};

void interleaved_to_planes(const std::vector<float>& from, int64_t channels, int64_t plane, float* to) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < plane; ++i) *to++ = from[static_cast<size_t>(i * channels + c)];
}

/// What making samples took, summed over them.
struct Cost {
  int64_t bytes = 0;
  double read_s = 0;
  double decode_s = 0;
  PixelKind needed;  // by a raw picture
};

AugmentDraw draw_of(const Recipe& recipe, std::optional<int64_t> epoch, int64_t index) {
  if (!epoch) return {};
  const uint64_t id = recipe.dataset.samples[static_cast<size_t>(index)].id;
  return draw_augmentation(recipe.options.augment, recipe.seed, *epoch, id);
}

/// Decodes the sample into row `row` of the slot's raw memory, unless its kind does not hold it; returns which does.
PixelKind decode_raw(const Recipe& recipe, const Slot& slot, size_t row, int64_t index, const SampleFiles& files) {
  const ImageOptions& size = recipe.options.image;
  const Image picture = decode_picture(recipe.dataset, recipe.options, index, recipe.seed, files);
  Image mask;
  if (slot.raw_masks != nullptr) {
    mask = decode_mask(recipe.dataset, recipe.options, index, recipe.seed, files);
    require_same_size(recipe.dataset, index, picture, mask);
  }
  const PixelKind needed = pixel_kind({picture.height, picture.width, picture.channels, picture.bits}, size);
  const PixelKind& kind = slot.batch.raw->kind;
  if (!kind.holds(needed)) return needed;
  const auto bytes = static_cast<size_t>(kind.picture_bytes(size));
  raw_image(picture, size, kind, {slot.raw + row * bytes, bytes});
  const auto plane = static_cast<size_t>(recipe.plane);
  if (slot.raw_masks != nullptr) raw_mask(mask, size, recipe.classes, {slot.raw_masks + row * plane, plane});
  return needed;
}

/// Decodes and transforms sample `place` of the slot into the slot's memory. No ATen in here: its operators would start
/// threads of their own in each of ours.
void decode_sample(const Recipe& recipe, const Slot& slot, size_t place, const SampleFiles& files) {
  const int64_t index = slot.batch.samples[place];
  const ImageOptions& size = recipe.options.image;
  const AugmentDraw draw = draw_of(recipe, slot.augment_epoch, index);
  const Image picture = decode_picture(recipe.dataset, recipe.options, index, recipe.seed, files);
  const int64_t values = recipe.plane * size.channels;
  float* out = slot.images + static_cast<int64_t>(place) * values;
  if (recipe.channels_last || size.channels == 1) {
    transform_image(picture, size, draw, {out, static_cast<size_t>(values)});
  } else {
    std::vector<float> interleaved(static_cast<size_t>(values));
    transform_image(picture, size, draw, interleaved);
    interleaved_to_planes(interleaved, size.channels, recipe.plane, out);
  }
  if (recipe.dataset.task != Task::segmentation) return;
  const Image mask = decode_mask(recipe.dataset, recipe.options, index, recipe.seed, files);
  require_same_size(recipe.dataset, index, picture, mask);
  const int64_t mask_values = recipe.plane * recipe.classes;
  float* target = slot.masks + static_cast<int64_t>(place) * mask_values;
  transform_mask(mask, size, draw, recipe.classes, {target, static_cast<size_t>(mask_values)});
}

/// Reads sample `number` of those that the slot is to make and makes it there.
Cost make_sample(const Recipe& recipe, const Slot& slot, size_t number, Trace& trace) {
  const Stopwatch stopwatch;
  const size_t place = slot.places[number];
  const int64_t index = slot.batch.samples[place];
  auto reading = trace.span("read", slot.number);
  const SampleFiles files = read_sample_files(recipe.dataset, index);
  reading.end();
  Cost cost;
  cost.bytes = files.bytes();
  cost.read_s = stopwatch.seconds();
  const auto decoding = trace.span("decode", slot.number);
  if (slot.batch.raw) {
    cost.needed = decode_raw(recipe, slot, number, index, files);
  } else {
    decode_sample(recipe, slot, place, files);
  }
  cost.decode_s = stopwatch.seconds() - cost.read_s;
  return cost;
}

at::TensorOptions host(const Recipe& recipe, at::ScalarType type) {
  return at::TensorOptions(type).pinned_memory(recipe.delivery.pinned);
}

at::Tensor targets_of(const Recipe& recipe, const std::vector<int64_t>& samples) {
  const auto n = static_cast<int64_t>(samples.size());
  const ImageOptions& size = recipe.options.image;
  if (recipe.dataset.task == Task::segmentation)
    return at::empty({n, recipe.classes, size.height, size.width}, host(recipe, at::kFloat));
  if (recipe.dataset.task == Task::multiclass) {
    at::Tensor targets = at::empty({n}, host(recipe, at::kLong));
    auto* out = targets.mutable_data_ptr<int64_t>();
    for (int64_t index : samples) *out++ = recipe.dataset.samples[static_cast<size_t>(index)].class_index;
    return targets;
  }
  at::Tensor targets = at::empty({n, recipe.classes}, host(recipe, at::kFloat));
  auto* out = targets.mutable_data_ptr<float>();
  for (int64_t index : samples)
    for (float label : recipe.dataset.samples[static_cast<size_t>(index)].labels) *out++ = label;
  return targets;
}

void give_finished_memory(const Recipe& recipe, Slot& slot) {
  const ImageOptions& size = recipe.options.image;
  const auto format = recipe.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const auto n = static_cast<int64_t>(slot.places.size());
  slot.batch.images =
      at::empty({n, size.channels, size.height, size.width}, host(recipe, at::kFloat).memory_format(format));
  slot.images = slot.batch.images.mutable_data_ptr<float>();
  if (recipe.dataset.task == Task::segmentation) slot.masks = slot.batch.targets.mutable_data_ptr<float>();
}

void give_raw_memory(const Recipe& recipe, const PixelKind& kind, Slot& slot) {
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
  for (const int64_t index : slot.batch.samples)
    raw.walks.push_back(walk_of(draw_of(recipe, slot.augment_epoch, index), size.height, size.width));
  slot.batch.raw = std::move(raw);
}

/// `kind`: of the pictures, where they stay raw.
std::shared_ptr<Slot> make_slot(const Recipe& recipe, const PixelKind& kind, BatchRequest request) {
  auto slot = std::make_shared<Slot>();
  const PictureCache* cache = recipe.delivery.cache;
  for (size_t place = 0; place < request.samples.size(); ++place)
    if (cache == nullptr || !cache->holds(request.samples[place])) slot->places.push_back(place);
  slot->batch.samples = std::move(request.samples);
  slot->augment_epoch = request.augment_epoch;
  if (!recipe.delivery.raw || recipe.dataset.task != Task::segmentation)
    slot->batch.targets = targets_of(recipe, slot->batch.samples);
  if (recipe.delivery.raw) {
    give_raw_memory(recipe, kind, *slot);
  } else {
    give_finished_memory(recipe, *slot);
  }
  return slot;
}

}  // namespace

// Of this process's affinity mask.
static int64_t usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask)
                                                       : static_cast<int64_t>(std::thread::hardware_concurrency());
}

struct Loader::Impl {
  Impl(Recipe made, Trace& timeline) : recipe(std::move(made)), trace(timeline) {}
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    work.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void run(int thread);
  std::shared_ptr<Slot> unclaimed() const;
  void add_slot();
  bool right_kind() const;
  void change_kind();
  void add(const Cost& cost);
  double ready_share() const;

  const Recipe recipe;
  Trace& trace;
  size_t prefetch = 1;

  mutable std::mutex mutex;       // guards all below, and the counters of every slot
  std::condition_variable work;   // a sample can be claimed, or the end has come
  std::condition_variable ready;  // a batch is complete
  bool stopping = false;
  std::deque<BatchRequest> requests;        // not begun yet
  std::deque<std::shared_ptr<Slot>> slots;  // being made or ready, in order
  PixelKind kind;                           // of raw pictures; grows to hold all that have been met
  uint64_t generation = 0;                  // of start(): what an earlier one left behind does not count
  double waited = 0;
  double fill_sum = 0;
  int64_t calls = 0;
  int64_t batches = 0;  // begun
  Cost spent;

  std::vector<std::thread> threads;
};

std::shared_ptr<Slot> Loader::Impl::unclaimed() const {
  for (const auto& slot : slots)
    if (slot->claimed < slot->places.size()) return slot;
  return nullptr;
}

void Loader::Impl::run(int thread) {
  trace.name_thread("loader " + std::to_string(thread));
  std::unique_lock lock(mutex);
  while (true) {
    std::shared_ptr<Slot> slot;
    work.wait(lock, [&] { return stopping || (slot = unclaimed()) != nullptr; });
    if (stopping) return;
    const size_t number = slot->claimed++;
    const uint64_t begun = generation;
    lock.unlock();
    Cost cost;
    std::exception_ptr error;
    try {
      cost = make_sample(recipe, *slot, number, trace);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && number < slot->error_number) {
      slot->error = error;
      slot->error_number = number;
    }
    slot->needed = slot->needed.with(cost.needed);
    if (begun == generation) add(cost);
    if (++slot->finished == slot->places.size()) ready.notify_all();
  }
}

// Makes the memory of the next batch and hands it to the threads. The lock is held by the caller; the allocation is
// cheap, the pages are touched by the threads.
void Loader::Impl::add_slot() {
  if (requests.empty()) return;
  slots.push_back(make_slot(recipe, kind, std::move(requests.front())));
  slots.back()->number = batches++;
  requests.pop_front();
}

// Of the first slot, which is ready.
bool Loader::Impl::right_kind() const {
  const Slot& slot = *slots.front();
  return !slot.batch.raw || slot.error != nullptr || slot.batch.raw->kind.holds(slot.needed);
}

// Raw pictures of another kind have come: the first slot and those behind it are made anew. It happens once or twice
// in a run, as the kind only grows.
void Loader::Impl::change_kind() {
  kind = kind.with(slots.front()->needed);
  for (auto& slot : slots) {
    const int64_t number = slot->number;
    slot = make_slot(recipe, kind, {slot->batch.samples, slot->augment_epoch});
    slot->number = number;
  }
  work.notify_all();
}

void Loader::Impl::add(const Cost& cost) {
  spent.bytes += cost.bytes;
  spent.read_s += cost.read_s;
  spent.decode_s += cost.decode_s;
}

double Loader::Impl::ready_share() const {
  const auto complete = std::count_if(slots.begin(), slots.end(), [](const auto& slot) { return slot->ready(); });
  return static_cast<double>(complete) / static_cast<double>(prefetch);
}

Loader::Loader(const Dataset& dataset, const DataOptions& options, uint64_t seed, at::MemoryFormat format, Trace& trace,
               const Delivery& delivery) {
  const bool channels_last = format == at::MemoryFormat::ChannelsLast;
  check(!delivery.raw || (channels_last && pixel_augmentations(options.augment).empty()),
        "raw pictures are channels-last, and flipped and turned at most");
  check(delivery.raw || delivery.cache == nullptr, "a cache holds raw pictures");
  const auto classes = static_cast<int64_t>(dataset.classes.size());
  const int64_t plane = options.image.height * options.image.width;
  impl_ = std::make_unique<Impl>(Recipe{dataset, options, seed, channels_last, delivery, classes, plane}, trace);
  impl_->prefetch = static_cast<size_t>(std::max<int64_t>(1, options.loader.prefetch));
  const int count = loader_threads(options.loader, 0, usable_cores());
  for (int i = 0; i < count; ++i) impl_->threads.emplace_back([impl = impl_.get(), i] { impl->run(i); });
}

Loader::~Loader() = default;

void Loader::start(std::vector<BatchRequest> requests) {
  Impl& impl = *impl_;
  const std::lock_guard lock(impl.mutex);
  ++impl.generation;
  impl.waited = impl.fill_sum = 0;
  impl.calls = impl.batches = 0;
  impl.spent = {};
  impl.slots.clear();
  impl.requests.assign(std::make_move_iterator(requests.begin()), std::make_move_iterator(requests.end()));
  for (size_t i = 0; i < impl.prefetch; ++i) impl.add_slot();
  impl.work.notify_all();
}

std::optional<Batch> Loader::next() {
  Impl& impl = *impl_;
  std::unique_lock lock(impl.mutex);
  if (impl.slots.empty()) return std::nullopt;
  impl.fill_sum += impl.ready_share();
  ++impl.calls;
  const Stopwatch stopwatch;
  impl.ready.wait(lock, [&] { return impl.slots.front()->ready(); });
  while (!impl.right_kind()) {
    impl.change_kind();
    impl.ready.wait(lock, [&] { return impl.slots.front()->ready(); });
  }
  impl.waited += stopwatch.seconds();
  const std::shared_ptr<Slot> slot = std::move(impl.slots.front());
  impl.slots.pop_front();
  impl.add_slot();
  lock.unlock();
  impl.work.notify_all();
  if (slot->error) std::rethrow_exception(slot->error);
  return std::move(slot->batch);
}

bool Loader::ready() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->slots.empty() || (impl_->slots.front()->ready() && impl_->right_kind());
}

Loader::Figures Loader::figures() const {
  const std::lock_guard lock(impl_->mutex);
  const double calls = static_cast<double>(std::max<int64_t>(1, impl_->calls));
  const Cost& spent = impl_->spent;
  return {impl_->waited, impl_->fill_sum / calls, spent.bytes, spent.read_s, spent.decode_s};
}

int Loader::threads() const { return static_cast<int>(impl_->threads.size()); }

int loader_threads(const LoaderOptions& options, int64_t compute_threads, int64_t cores) {
  if (options.threads > 0) return static_cast<int>(options.threads);
  return static_cast<int>(std::max<int64_t>(1, cores - compute_threads));
}

}  // namespace dtrain
