#include "dtrain/data/batches/loader.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/data/batches/batch_maker.hpp"
#include "dtrain/data/batches/thread_tuner.hpp"

namespace dtrain {

struct Loader::Impl {
  Impl(BatchRecipe made, Trace& timeline) : recipe(std::move(made)), trace(timeline) {}
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    work.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void run(size_t thread);
  void set_working(size_t count);
  void tune(double waited_s);
  void make_one(std::unique_lock<std::mutex>& lock, const std::shared_ptr<BatchSlot>& slot);
  void await_first(std::unique_lock<std::mutex>& lock);
  bool sequential() const { return recipe.options.loader.pipeline == Pipeline::sequential; }
  std::shared_ptr<BatchSlot> unclaimed() const;
  std::optional<int64_t> sample_to_ask_for() const;
  std::shared_ptr<BatchSlot> slot_for(BatchRequest request, int64_t number) const;
  void add_slot();
  bool right_kind() const;
  void change_kind();
  void add(const SampleCost& cost);
  double ready_share() const;

  const BatchRecipe recipe;
  Trace& trace;
  size_t prefetch = 1;  // pipeline sequential: 0

  mutable std::mutex mutex;       // guards all below, and the counters of every slot
  std::condition_variable work;   // a sample can be claimed, or the threads should end
  std::condition_variable ready;  // a batch is complete
  bool stopping = false;
  std::deque<BatchRequest> requests;             // not begun yet
  std::deque<std::shared_ptr<BatchSlot>> slots;  // being made or ready, in order
  PixelKind kind;                                // of raw pictures; grows to hold all that have come so far
  std::map<int64_t, Replaced> replaced;          // samples whose substitute's picture delivery.cache may hold
  uint64_t generation = 0;                       // counts start(): results of an earlier one are ignored
  double waited = 0;
  double fill_sum = 0;
  int64_t calls = 0;
  int64_t batches = 0;  // begun
  SampleCost spent;

  std::optional<ThreadTuner> tuner;
  bool training = false;  // start() began training: only its waits are used for tuning
  Stopwatch since_taken;  // since the last batch was taken
  size_t working = 0;     // so many threads may work, the first ones
  std::vector<std::thread> threads;
};

std::shared_ptr<BatchSlot> Loader::Impl::unclaimed() const {
  for (const auto& slot : slots)
    if (slot->claimed < slot->size()) return slot;
  return nullptr;
}

void Loader::Impl::run(size_t thread) {
  trace.name_thread("loader " + std::to_string(thread));
  std::unique_lock lock(mutex);
  while (true) {
    std::shared_ptr<BatchSlot> slot;
    work.wait(lock, [&] { return stopping || (thread < working && (slot = unclaimed()) != nullptr); });
    if (stopping) return;
    make_one(lock, slot);
  }
}

// If the system refuses more threads, those that exist must do; without any it is an error.
void Loader::Impl::set_working(size_t count) {
  try {
    for (size_t i = threads.size(); i < count; ++i) threads.emplace_back([this, i] { run(i); });
  } catch (const std::system_error&) {
    if (threads.empty()) throw;
    if (tuner) tuner->settle_at(static_cast<int>(threads.size()));
  }
  working = std::min(count, threads.size());
  work.notify_all();
}

// Called when a batch was taken after a wait of `waited_s`. The first batches after start() find an empty queue; their
// waits mean nothing.
void Loader::Impl::tune(double waited_s) {
  const double passed_s = since_taken.seconds();
  since_taken.restart();
  if (!tuner || !training || calls <= static_cast<int64_t>(prefetch) + 1) return;
  if (tuner->note(waited_s, passed_s)) set_working(static_cast<size_t>(tuner->threads()));
}

// options.loader.interleave records are being read at once: when one is claimed, the one so many samples further on is
// requested from the disk, if it is in a batch that is being made.
std::optional<int64_t> Loader::Impl::sample_to_ask_for() const {
  auto ahead = static_cast<size_t>(recipe.options.loader.interleave) - 1;
  if (ahead == 0 || !recipe.dataset.store->reads_ahead()) return std::nullopt;
  for (const auto& slot : slots) {
    const size_t left = slot->size() - slot->claimed;
    if (ahead <= left) return slot->sample(slot->claimed + ahead - 1);
    ahead -= left;
  }
  return std::nullopt;
}

// Makes the slot's next sample; the lock is released meanwhile.
void Loader::Impl::make_one(std::unique_lock<std::mutex>& lock, const std::shared_ptr<BatchSlot>& slot) {
  const size_t number = slot->claimed++;
  const uint64_t begun = generation;
  const std::optional<int64_t> ahead = sample_to_ask_for();
  lock.unlock();
  if (ahead) recipe.dataset.store->ask_ahead(recipe.dataset.samples[static_cast<size_t>(*ahead)]);
  SampleCost cost;
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
  if (cost.replaced) {
    if (recipe.delivery.cache != nullptr) replaced[cost.replaced->sample] = *cost.replaced;
    slot->replaced[slot->places[number]] = std::move(*cost.replaced);
  }
  if (begun == generation) add(cost);
  if (++slot->finished == slot->size()) ready.notify_all();
}

// Returns when the first slot is ready.
void Loader::Impl::await_first(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<BatchSlot> first = slots.front();
  while (sequential() && first->claimed < first->size()) make_one(lock, first);
  ready.wait(lock, [&] { return first->ready(); });
}

std::shared_ptr<BatchSlot> Loader::Impl::slot_for(BatchRequest request, int64_t number) const {
  std::shared_ptr<BatchSlot> slot = make_slot(recipe, kind, std::move(request));
  slot->number = number;
  const std::vector<int64_t>& samples = slot->batch.samples;
  for (size_t place = 0; place < samples.size() && !replaced.empty(); ++place)
    if (const auto found = replaced.find(samples[place]);
        found != replaced.end() && recipe.delivery.cache->holds(samples[place])) {
      write_label(recipe, *slot, place, found->second.substitute);
      slot->replaced[place] = found->second;
    }
  return slot;
}

// Allocates the memory of the next batch and hands it to the threads. The caller holds the lock: allocating is cheap,
// since the threads are the first to touch the pages.
void Loader::Impl::add_slot() {
  if (requests.empty()) return;
  slots.push_back(slot_for(std::move(requests.front()), batches++));
  requests.pop_front();
}

// Whether the first slot, which is ready, has memory of a kind that holds all its pictures.
bool Loader::Impl::right_kind() const {
  const BatchSlot& slot = *slots.front();
  return !slot.batch.raw || slot.error != nullptr || slot.batch.raw->kind.holds(slot.needed);
}

// Raw pictures of another kind have come: the first slot and those after it are made again. This happens once or twice
// in a run, since the kind only grows.
void Loader::Impl::change_kind() {
  kind = kind.with(slots.front()->needed);
  for (auto& slot : slots)
    slot = slot_for({slot->batch.samples, slot->augment_epoch, slot->may_replace, slot->repeats, slot->foreign},
                    slot->number);
  work.notify_all();
}

void Loader::Impl::add(const SampleCost& cost) {
  spent.bytes += cost.bytes;
  spent.read_s += cost.read_s;
  spent.decode_s += cost.decode_s;
}

double Loader::Impl::ready_share() const {
  const auto complete = std::count_if(slots.begin(), slots.end(), [](const auto& slot) { return slot->ready(); });
  return static_cast<double>(complete) / static_cast<double>(std::max<size_t>(1, prefetch));
}

Loader::Loader(const Dataset& dataset, const DataOptions& options, uint64_t seed, at::MemoryFormat format, Trace& trace,
               const Delivery& delivery) {
  const bool channels_last = format == at::MemoryFormat::ChannelsLast;
  check(!delivery.raw || (channels_last && pixel_augmentations(options.augment).empty()),
        "raw pictures are channels-last, and flipped and turned at most");
  check(delivery.raw || delivery.cache == nullptr, "a cache on the device holds raw pictures");
  const auto classes = static_cast<int64_t>(dataset.classes.size());
  const int64_t plane = options.image.seen_height() * options.image.seen_width();
  impl_ = std::make_unique<Impl>(BatchRecipe{dataset, options, seed, channels_last, delivery, classes, plane}, trace);
  if (impl_->sequential()) {
    impl_->prefetch = 0;
    return;
  }
  impl_->prefetch = static_cast<size_t>(std::max<int64_t>(1, options.loader.prefetch));
  const int count = loader_threads(options.loader, 0, static_cast<int64_t>(bound_cores().size()));
  if (delivery.tune_threads) impl_->tuner.emplace(count);
  const std::lock_guard lock(impl_->mutex);
  impl_->set_working(static_cast<size_t>(count));
}

Loader::~Loader() = default;

void Loader::start(std::vector<BatchRequest> requests) {
  Impl& impl = *impl_;
  const std::lock_guard lock(impl.mutex);
  ++impl.generation;
  impl.waited = impl.fill_sum = 0;
  impl.calls = impl.batches = 0;
  impl.spent = {};
  impl.training = !requests.empty() && requests.front().augment_epoch.has_value();
  if (impl.tuner) impl.tuner->begin_window();
  impl.slots.clear();
  impl.requests.assign(std::make_move_iterator(requests.begin()), std::make_move_iterator(requests.end()));
  for (size_t i = 0; i < impl.prefetch; ++i) impl.add_slot();
  impl.work.notify_all();
}

std::optional<Batch> Loader::next() {
  Impl& impl = *impl_;
  std::unique_lock lock(impl.mutex);
  if (impl.sequential()) impl.add_slot();
  if (impl.slots.empty()) return std::nullopt;
  impl.fill_sum += impl.ready_share();
  ++impl.calls;
  const Stopwatch stopwatch;
  impl.await_first(lock);
  while (!impl.right_kind()) {
    impl.change_kind();
    impl.await_first(lock);
  }
  const double waited = stopwatch.seconds();
  impl.waited += waited;
  impl.tune(waited);
  const std::shared_ptr<BatchSlot> slot = std::move(impl.slots.front());
  impl.slots.pop_front();
  if (!impl.sequential()) impl.add_slot();
  lock.unlock();
  impl.work.notify_all();
  if (slot->error) std::rethrow_exception(slot->error);
  for (auto& [place, replaced] : slot->replaced) slot->batch.replaced.push_back(std::move(replaced));
  return std::move(slot->batch);
}

bool Loader::ready() const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->slots.empty()) return impl_->requests.empty();
  return impl_->slots.front()->ready() && impl_->right_kind();
}

Loader::Figures Loader::figures() const {
  const std::lock_guard lock(impl_->mutex);
  const double calls = static_cast<double>(std::max<int64_t>(1, impl_->calls));
  const SampleCost& spent = impl_->spent;
  return {impl_->waited, impl_->fill_sum / calls, spent.bytes, spent.read_s, spent.decode_s};
}

int Loader::threads() const {
  const std::lock_guard lock(impl_->mutex);
  return std::max(1, static_cast<int>(impl_->working));
}

int loader_threads(const LoaderOptions& options, int64_t compute_threads, int64_t cores) {
  if (options.threads > 0) return static_cast<int>(options.threads);
  return static_cast<int>(std::max<int64_t>(1, cores - compute_threads));
}

}  // namespace dtrain
