// chaos_flips: flips single bits of one rank's replica in the middle of a real training and counts which of them the
// comparison of replicas finds and attributes to the right tensor and rank. Start it with mpirun, or by scripts/chaos.
//
// Prints JSON objects, one a line: the counts so far every 100 flips, all figures at the end. "check_share" is the
// share of the time that the comparison takes in a training of ResNet-50 with the interval it chooses itself. Exit
// codes: 0 every flip was caught and named, 1 one was not, 64 bad command line, 70 something else went wrong.
#include <ATen/Parallel.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/mpi_session.hpp"
#include "flip.hpp"
#include "options.hpp"
#include "training.hpp"

namespace dtrain {
namespace {

struct Campaign {
  int64_t count = 0;
  uint64_t seed = 1;
  int64_t share_steps = 40;
};

struct Counts {
  int64_t planted = 0;
  int64_t caught = 0;
  int64_t named = 0;
  void add(bool was_caught, bool was_named) {
    ++planted;
    caught += was_caught ? 1 : 0;
    named += was_named ? 1 : 0;
  }
  nlohmann::ordered_json json() const { return {{"planted", planted}, {"caught", caught}, {"named", named}}; }
};

void print(const Communicator& comm, const nlohmann::ordered_json& line) {
  if (comm.rank() != 0) return;
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

// The error's sentence, or "" if the step succeeded.
std::string sentence_of_step(Training& training) {
  try {
    training.step();
  } catch (const Error& error) {
    if (error.code() == exit_code::kReplicasDiffer) return error.what();
    throw;
  }
  return "";
}

bool names(const std::string& sentence, const FlipTarget& target, const Flip& flip, int ranks) {
  const auto has = [&](const std::string& words) { return sentence.find(words) != std::string::npos; };
  return has(" hold different bits of " + target.name + " before step ") &&
         (ranks < 3 || has("; the fault lies with rank " + std::to_string(flip.rank) + ":"));
}

// Flips the bit before a step, lets all ranks take the step, and restores everything.
void plant(Training& training, Communicator& comm, const std::vector<FlipTarget>& targets, const Flip& flip,
           Counts& all, Counts& of_kind) {
  const FlipTarget& target = targets[flip.target];
  Replica& replica = training.replica();
  const Snapshot before(replica);
  if (comm.rank() == flip.rank) flip_bit(replica, target, flip);
  const std::string sentence = sentence_of_step(training);
  const bool missed = any(comm, sentence.empty());
  const bool unnamed = any(comm, !names(sentence, target, flip, comm.size()));
  all.add(!missed, !unnamed);
  of_kind.add(!missed, !unnamed);
  if (unnamed && comm.rank() == 0)
    std::fprintf(stderr, "chaos_flips: flip %lld, bit %d of element %lld of %s on rank %d: %s\n",
                 static_cast<long long>(all.planted), flip.bit, static_cast<long long>(flip.element),
                 target.name.c_str(), flip.rank, missed ? "not caught" : sentence.c_str());
  before.put_back(replica);
  replica.broadcast_from(comm, (flip.rank + 1) % comm.size());
  training.again();
}

// Seconds in the comparison ÷ seconds of the steps, over whole intervals between two hashes of the weights.
nlohmann::ordered_json cost_of_check(Communicator& comm, int64_t least_steps) {
  Training::Setting setting;
  setting.network = network_kind("resnet50");
  setting.pixels = 64;
  setting.check_every = 0;
  Training training(setting, comm);
  const ReplicaCheck& check = training.check();
  while (check.weights_taken() < 4) training.step();  // two in the first steps, two at intervals
  const double checked_before = check.seconds();
  const int64_t taken_before = check.weights_taken();
  int64_t steps = 0;
  const Stopwatch watch;
  for (int64_t taken = taken_before; steps < least_steps || taken == check.weights_taken(); ++steps) {
    taken = check.weights_taken();
    training.step();
  }
  const double seconds = watch.seconds();
  return {{"check_share", (check.seconds() - checked_before) / seconds},
          {"check_every", static_cast<double>(steps) / static_cast<double>(check.weights_taken() - taken_before)},
          {"check_steps", steps},
          {"step_s", seconds / static_cast<double>(steps)}};
}

bool run(const Campaign& campaign, Communicator& comm) {
  at::set_num_threads(1);
  Training training({}, comm);
  for (int i = 0; i < 3; ++i) training.step();  // the first one changes the layout
  const std::vector<FlipTarget> targets = flip_targets(training.replica());
  Counts all;
  Counts by_kind[3];
  const Stopwatch watch;
  for (int64_t i = 0; i < campaign.count; ++i) {
    const Flip flip = draw_flip(targets, campaign.seed, i, comm.size());
    plant(training, comm, targets, flip, all, by_kind[static_cast<int>(targets[flip.target].kind)]);
    training.step();  // an undisturbed one succeeds
    if (all.planted % 100 == 0) print(comm, all.json());
  }
  nlohmann::ordered_json summary = all.json();
  for (size_t kind = 0; kind < 3; ++kind) summary["by_kind"][kFlipKindNames[kind]] = by_kind[kind].json();
  summary["seconds"] = watch.seconds();
  if (campaign.share_steps > 0) summary.update(cost_of_check(comm, campaign.share_steps));
  print(comm, summary);
  return all.named == all.planted && all.caught == all.planted;
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) {
  using namespace dtrain;
  Campaign campaign;
  Options options("Flips bits on one rank and counts which of them are found. Under mpirun, two ranks or more.");
  options.number("--count", campaign.count, "bits to flip", 1);
  options.require_any({"--count"});
  options.seed(campaign.seed);
  options.number("--share-steps", campaign.share_steps, "least steps in which the cost is measured; 0: not measured",
                 0);
  if (const auto code = options.read(argc, argv)) return *code;
  MpiSession session;
  const auto world = session.world();
  bool good = false;
  try {
    if (world->size() < 2) throw UsageError("one rank has no other to be compared with; start it with mpirun -np 3");
    good = run(campaign, *world);
    barrier(*world);
  } catch (const Error& error) {
    std::fprintf(stderr, "chaos_flips: [rank %d] %s\n", world->rank(), error.what());
    session.abort(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "chaos_flips: [rank %d] %s\n", world->rank(), error.what());
    session.abort(exit_code::kInternal);
  }
  session.finalize();
  return good ? 0 : 1;
}
