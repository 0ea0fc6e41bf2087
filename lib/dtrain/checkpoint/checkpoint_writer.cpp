#include "dtrain/checkpoint/checkpoint_writer.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/time.hpp"

namespace dtrain {

struct CheckpointWriter::Impl {
  struct Job {
    Outcome outcome;
    Stopwatch since;
    HostCopy tensors;
    std::function<void(const HostCopy&)> write;
  };

  Impl(CheckpointFolder in_folder, int64_t to_keep, std::function<void()> before)
      : folder(std::move(in_folder)), keep(to_keep), first(std::move(before)) {}

  void begin(Outcome outcome, const std::vector<FileTensor>& tensors, std::function<void(const HostCopy&)> write) {
    wait_for_room();
    queue({std::move(outcome), {}, HostCopy(tensors), std::move(write)});
  }

  void queue(Job job) {
    const std::lock_guard lock(mutex);
    if (!job.outcome.checkpoint) failed_best.reset();
    jobs.push_back(std::move(job));
    changed.notify_all();
  }

  void wait_for_room() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return jobs.size() < kMostWaiting; });
  }

  // A job stays in the queue until it is done.
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return leaving || !jobs.empty(); });
      if (jobs.empty()) return;
      Job& job = jobs.front();  // stays valid in a deque while others are added behind it
      lock.unlock();
      attempt(job);
      lock.lock();
      ended.push_back(job.outcome);
      if (job.outcome.failed != 0 && !job.outcome.checkpoint) failed_best = std::move(job);
      jobs.pop_front();
      changed.notify_all();
    }
  }

  void attempt(Job& job) const {
    try {
      first();
      job.write(job.tensors);
    } catch (const Error& error) {
      job.outcome.failed = error.code();
      job.outcome.why = error.what();
    } catch (const std::exception& error) {
      job.outcome.failed = exit_code::kIo;
      job.outcome.why = "cannot write " + job.outcome.path + ": " + error.what();
    }
    job.outcome.seconds = job.since.seconds();
  }

  CheckpointFolder folder;
  int64_t keep;
  std::function<void()> first;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  std::vector<Outcome> ended;
  std::optional<Job> failed_best;
  bool leaving = false;
  std::thread thread;
};

CheckpointWriter::CheckpointWriter(CheckpointFolder folder, int64_t keep, std::function<void()> first)
    : impl_(std::make_unique<Impl>(std::move(folder), keep, std::move(first))) {
  impl_->thread = std::thread([this] { impl_->run(); });
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->leaving = true;
    impl_->changed.notify_all();
  }
  impl_->thread.join();
}

void CheckpointWriter::save(const TrainingState& state, const std::vector<FileTensor>& tensors) {
  Outcome outcome;
  outcome.path = impl_->folder.path() + "/" + CheckpointFolder::file_name(state);
  outcome.step = state.step;
  outcome.epoch = state.epoch;
  outcome.checkpoint = true;
  impl_->begin(outcome, tensors, [this, state](const HostCopy& copy) { impl_->folder.save(state, copy, impl_->keep); });
}

void CheckpointWriter::save_tensors(const std::string& path, const TrainingState& state,
                                    const std::vector<FileTensor>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  Outcome outcome;
  outcome.path = path;
  outcome.step = state.step;
  outcome.epoch = state.epoch;
  impl_->begin(outcome, tensors, [this, path, metadata](const HostCopy& copy) {
    dtrain::save_tensors(path, copy, metadata, impl_->folder.files());
  });
}

void CheckpointWriter::try_best_again() {
  std::optional<Impl::Job> job;
  {
    const std::lock_guard lock(impl_->mutex);
    job = std::exchange(impl_->failed_best, std::nullopt);
  }
  if (!job) return;
  job->outcome.failed = 0;
  job->outcome.why.clear();
  job->since.restart();
  impl_->queue(std::move(*job));
}

std::vector<CheckpointWriter::Outcome> CheckpointWriter::outcomes() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->ended, {});
}

std::vector<CheckpointWriter::Outcome> CheckpointWriter::finish() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return impl_->jobs.empty(); });
  return std::exchange(impl_->ended, {});
}

}  // namespace dtrain
