#include "dtrain/watch/watchdog.hpp"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "dtrain/base/time.hpp"
#include "dtrain/watch/stack_trace.hpp"

namespace dtrain {

constexpr double kRecordPatience = 2;   // seconds for which the reporting rank waits for flight records
constexpr double kSpeakerPatience = 3;  // seconds for which the others leave reporting to it
constexpr int kLooksAfterWaking = 10;   // until a process that was stopped no longer counts as such

// Seconds between two checks: short enough to keep the smallest limits, long enough to cost nothing.
static double pause_for(const WatchLimits& limits) {
  return std::clamp(std::min(limits.warn_s, limits.abort_s) / 20, 0.02, 0.5);
}

static void sleep_for(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec pause{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  nanosleep(&pause, nullptr);
}

struct Watchdog::Impl {
  Impl(const Options& given, Handlers given_handlers)
      : options(given), handlers(std::move(given_handlers)), judge(given.limits), training(pthread_self()) {}

  Options options;
  Handlers handlers;
  RankPage page;
  FlightRecorder flights;
  StallJudge judge;
  pthread_t training;
  std::unique_ptr<RankTable> known;        // once connected; lives as long as the threads
  std::atomic<RankTable*> table{nullptr};  // null: no other rank is known
  std::unique_ptr<PeerLink> link;
  std::mutex mutex;
  std::condition_variable leave;
  bool leaving = false;
  bool link_leaving = false;
  std::function<void(const FlightRecord&)> write;
  std::vector<std::shared_ptr<std::atomic<bool>>> begun;  // threads of begin(): done or not
  bool told_of_failure = false;                           // another rank's
  int looks_awake = kLooksAfterWaking;                    // checks since this process was stopped
  std::thread watcher;
  std::thread courier;

  // Runs `act` on a new thread that nobody has to wait for. The flag becomes true when it is done.
  std::shared_ptr<std::atomic<bool>> begin(std::function<void()> act) {
    auto done = std::make_shared<std::atomic<bool>>(false);
    try {
      std::thread([done, act = std::move(act)] {
        try {
          act();
        } catch (const std::exception&) {
          // A record that cannot be written must not hide the reason why the job ends.
        }
        done->store(true);
      }).detach();
      const std::lock_guard lock(mutex);
      begun.push_back(done);
    } catch (const std::exception&) {  // no thread can be started
      done->store(true);
    }
    return done;
  }

  struct View {  // of all known ranks
    std::vector<RankState> states;
    std::vector<std::string> hosts;
    std::vector<long> pids;
    int own = 0;  // this rank's index in the lists
  };
  View look() {
    View view;
    if (const RankTable* all = table.load()) {
      view.states = all->states();
      view.own = all->rank();
      for (int r = 0; r < all->size(); ++r) {
        view.hosts.push_back(all->host(r));
        view.pids.push_back(all->pid(r));
      }
    } else {
      view.states = {page.words().read()};
      view.states[0].same_host = 1;
      view.hosts = {options.host};
      view.pids = {static_cast<long>(getpid())};
    }
    return view;
  }

  void watch() {
    const double pause = pause_for(options.limits);
    Stopwatch since;
    std::unique_lock lock(mutex);
    while (!leave.wait_for(lock, std::chrono::duration<double>(pause), [&] { return leaving; })) {
      lock.unlock();
      handlers.look();
      page.words().beat.fetch_add(1);
      // If the process was stopped or the machine asleep, it has not waited all that time.
      const double passed = since.seconds();
      since.restart();
      looks_awake = passed < options.limits.abort_s / 2 ? looks_awake + 1 : 0;
      const View view = look();
      const StallJudge::Verdict verdict = judge.look(view.states, std::min(passed, 3 * pause));
      if (verdict.stalled || another(view, Ending::stalled)) {
        end(view, verdict);
        return;
      }
      if (!told_of_failure && another(view, Ending::failed)) {
        told_of_failure = true;
        begin(recording("failure of another rank", "", view, verdict));
      }
      if (verdict.warn && speaks(view, verdict))
        begin([warn = handlers.warn, sentence = warning_sentence(verdict, view.states, view.hosts, options.ranks)] {
          warn(sentence);
        });
      lock.lock();
    }
  }

  bool speaks(const View& view, const StallJudge::Verdict& verdict) const {
    return view.states.size() > 1 ? verdict.speaker == view.own : options.rank == 0 || options.ranks == 1;
  }

  static bool another(const View& view, Ending ending) {
    for (size_t r = 0; r < view.states.size(); ++r)
      if (static_cast<int>(r) != view.own && view.states[r].ending == ending) return true;
    return false;
  }

  // Waits for `holds`, and keeps counting beats meanwhile.
  template <class Condition>
  void wait(double seconds, const Condition& holds) {
    const Stopwatch waited;
    while (!holds() && waited.seconds() < seconds) {
      page.words().beat.fetch_add(1);
      sleep_for(0.02);
    }
  }

  void end(const View& view, const StallJudge::Verdict& verdict) {
    RankWords& own = page.words();
    own.ending.store(Ending::stalled);
    const std::string sentence = stall_sentence(verdict, view.states, view.hosts, view.own, options.ranks);
    // The launcher wakes a stopped process to end it, which then finds that the other ranks have given up.
    const bool woken = !verdict.stalled && looks_awake < kLooksAfterWaking;
    begin(recording(woken ? "stopped" : "stall", sentence, view, verdict));
    if (!woken && speaks(view, verdict) && !another_told(view)) {
      tell(sentence);
      wait(kRecordPatience, [&] { return recorded(verdict); });
    } else {
      // If the rank that should report does not, the others must not all report at once.
      wait(kSpeakerPatience + 0.3 * std::min(options.rank, 20), [] { return false; });
      if (!another_told(look())) tell(sentence);
    }
    handlers.end();
  }

  void tell(const std::string& sentence) {
    page.words().told.store(1);
    const auto done = begin([tell = handlers.tell, sentence] { tell(sentence); });
    wait(1, [&] { return done->load(); });
  }

  bool recorded(const StallJudge::Verdict& verdict) {
    const View now = look();
    for (size_t r = 0; r < now.states.size(); ++r)
      if (r < verdict.alive.size() && verdict.alive[r] && now.states[r].recorded == 0) return false;
    return true;
  }

  static bool another_told(const View& view) {
    return std::any_of(view.states.begin(), view.states.end(), [](const RankState& rank) { return rank.told != 0; });
  }

  std::function<void()> recording(const std::string& reason, const std::string& sentence, const View& view,
                                  const StallJudge::Verdict& verdict) {
    return [this, reason, sentence, view, verdict] {
      std::function<void(const FlightRecord&)> writer;
      {
        const std::lock_guard lock(mutex);
        writer = write;
      }
      try {
        if (writer) writer(record(reason, sentence, view, verdict));
      } catch (...) {
        page.words().recorded.store(1);
        throw;
      }
      page.words().recorded.store(1);
    };
  }

  FlightRecord record(const std::string& reason, const std::string& sentence, const View& view,
                      const StallJudge::Verdict& verdict) const {
    FlightRecord record;
    record.rank = options.rank;
    record.ranks = static_cast<int>(view.states.size());
    record.host = options.host;
    record.pid = getpid();
    record.reason = reason;
    record.sentence = sentence;
    if (reason == "stall") record.waited_for = verdict.behind;
    for (size_t r = 0; r < view.states.size(); ++r) {
      const RankState& state = view.states[r];
      record.peers.push_back({view.states.size() > 1 ? static_cast<int>(r) : options.rank, view.hosts[r], view.pids[r],
                              name_of(state.section), state.step, state.sums, verdict.progress_s[r], verdict.alive[r]});
    }
    record.events = flights.recent();
    if (reason != "failure") record.stack = stack_of(training, 0.5);  // a failing thread has already unwound
    return record;
  }

  // Between hosts: on each host the lowest rank whose beat advances sends what it knows of its host to all others.
  void carry() {
    const double pause = pause_for(options.limits);
    constexpr int kSilentRounds = 5;
    std::vector<uint64_t> beats(static_cast<size_t>(known->size()));
    std::vector<int> silent(beats.size());
    std::unique_lock lock(mutex);
    while (!leave.wait_for(lock, std::chrono::duration<double>(pause), [&] { return link_leaving; })) {
      lock.unlock();
      while (const auto message = link->receive()) known->heard(*message);
      const std::vector<RankState> states = known->states();
      int lowest = known->rank();
      for (size_t r = states.size(); r-- > 0;) {
        silent[r] = states[r].beat == beats[r] ? silent[r] + 1 : 0;
        beats[r] = states[r].beat;
        const bool alive = silent[r] < kSilentRounds;
        if (static_cast<int>(r) < lowest && states[r].same_host != 0 && alive) lowest = static_cast<int>(r);
      }
      const std::vector<std::byte> message = known->message();
      for (int r = 0; lowest == known->rank() && r < known->size(); ++r)
        if (!known->same_host(r)) link->send(r, message);
      lock.lock();
    }
  }

  void stop(std::thread& thread, bool& flag) {
    {
      const std::lock_guard lock(mutex);
      flag = true;
      leave.notify_all();
    }
    if (thread.joinable()) thread.join();
  }
};

Watchdog::Watchdog(const Options& options, Handlers handlers)
    : impl_(std::make_unique<Impl>(options, std::move(handlers))) {
  install_stack_signal();
  enter(Section::start, 0);
  impl_->watcher = std::thread([this] { impl_->watch(); });
}

Watchdog::~Watchdog() {
  disconnect();
  impl_->stop(impl_->watcher, impl_->leaving);
  for (const auto& done : impl_->begun) impl_->wait(kRecordPatience, [&] { return done->load(); });
}

void Watchdog::enter(Section section, int64_t step) {
  RankWords& own = impl_->page.words();
  own.section.store(section, std::memory_order_relaxed);
  own.step.store(step, std::memory_order_relaxed);
  own.progress.fetch_add(1, std::memory_order_relaxed);
  impl_->flights.note(false, section, step, own.sums.load(std::memory_order_relaxed));
}

void Watchdog::begin_sum() {
  RankWords& own = impl_->page.words();
  const int64_t sums = own.sums.fetch_add(1, std::memory_order_relaxed) + 1;
  own.progress.fetch_add(1, std::memory_order_relaxed);
  impl_->flights.note(true, Section::reduce, own.step.load(std::memory_order_relaxed), sums);
}

Watchdog::Wait::Wait(Watchdog& watchdog) : watchdog_(watchdog) {
  watchdog_.impl_->page.words().waiting.store(1, std::memory_order_relaxed);
}

Watchdog::Wait::~Wait() {
  RankWords& own = watchdog_.impl_->page.words();
  own.waiting.store(0, std::memory_order_relaxed);
  own.progress.fetch_add(1, std::memory_order_relaxed);
}

std::string Watchdog::offer() const { return impl_->page.offer(impl_->options.host); }

void Watchdog::connect(const std::vector<std::string>& offers, std::unique_ptr<PeerLink> link) {
  impl_->known = std::make_unique<RankTable>(impl_->options.rank, impl_->page.words(), offers);
  impl_->table.store(impl_->known.get());
  bool several_hosts = false;
  for (int r = 0; r < impl_->known->size(); ++r) several_hosts = several_hosts || !impl_->known->same_host(r);
  impl_->link = std::move(link);
  if (several_hosts) impl_->courier = std::thread([this] { impl_->carry(); });
}

void Watchdog::disconnect() {
  impl_->table.store(nullptr);
  impl_->stop(impl_->courier, impl_->link_leaving);
  impl_->link.reset();
}

void Watchdog::keep_records(std::function<void(const FlightRecord&)> write) {
  const std::lock_guard lock(impl_->mutex);
  impl_->write = std::move(write);
}

void Watchdog::note_failure(const std::string& sentence) {
  RankWords& own = impl_->page.words();
  own.progress.fetch_add(1);
  own.ending.store(Ending::failed);
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->write) return;
  }
  const Impl::View view = impl_->look();
  StallJudge::Verdict verdict;
  verdict.progress_s.assign(view.states.size(), 0);
  verdict.alive.assign(view.states.size(), true);
  impl_->begin(impl_->recording("failure", sentence, view, verdict));
  impl_->wait(2, [&] { return own.recorded.load() != 0; });  // less than the others wait for this rank's word
}

}  // namespace dtrain
