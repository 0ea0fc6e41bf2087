#include "dtrain/watch/stall_judge.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "dtrain/base/text.hpp"

namespace dtrain {

static bool long_by_nature(Section section) {
  return section == Section::start || section == Section::save || section == Section::finish;
}

// How far a rank has come, as a value to compare. Evaluation and saving come before the first batch of the next step.
static std::tuple<int64_t, int, int64_t> position(const RankState& rank) {
  switch (rank.section) {
    case Section::start:
      return {-1, 0, 0};
    case Section::evaluate:
      return {rank.step, 0, rank.sums};
    case Section::save:
      return {rank.step, 1, rank.sums};
    case Section::load:
    case Section::compute:
      return {rank.step, 2, rank.sums};
    case Section::reduce:
      return {rank.step, 3, rank.sums};
    case Section::update:
      return {rank.step, 4, rank.sums};
    case Section::finish:
      break;
  }
  return {std::numeric_limits<int64_t>::max(), 0, 0};
}

static bool waits(const RankState& rank) { return rank.waiting != 0 || rank.section == Section::reduce; }

// The ranks in `among` that are at the earliest position; with `unless_all` none if all of them are.
static std::vector<int> earliest(const std::vector<RankState>& ranks, const std::vector<int>& among, bool unless_all) {
  std::vector<int> found;
  for (const int r : among) {
    const auto at = position(ranks[static_cast<size_t>(r)]);
    if (!found.empty() && at < position(ranks[static_cast<size_t>(found[0])])) found.clear();
    if (found.empty() || at == position(ranks[static_cast<size_t>(found[0])])) found.push_back(r);
  }
  return unless_all && found.size() == among.size() ? std::vector<int>{} : found;
}

StallJudge::Verdict StallJudge::look(const std::vector<RankState>& ranks, double passed_s) {
  if (seen_.size() != ranks.size()) seen_.assign(ranks.size(), {});
  Verdict verdict;
  verdict.still_s = std::numeric_limits<double>::infinity();
  double stopped_s = 0;  // among this host's ranks
  for (size_t r = 0; r < ranks.size(); ++r) {
    Seen& seen = seen_[r];
    seen.progress_s = ranks[r].progress == seen.progress ? seen.progress_s + passed_s : 0;
    seen.beat_s = ranks[r].beat == seen.beat ? seen.beat_s + passed_s : 0;
    seen.progress = ranks[r].progress;
    seen.beat = ranks[r].beat;
    verdict.progress_s.push_back(seen.progress_s);
    verdict.still_s = std::min(verdict.still_s, seen.progress_s);
    if (ranks[r].same_host != 0) stopped_s = std::max(stopped_s, seen.beat_s);
  }
  const bool stopped = stopped_s >= limits_.abort_s;
  if (stopped) verdict.still_s = std::max(verdict.still_s, stopped_s);
  std::vector<int> silent;
  std::vector<int> busy;
  std::vector<int> waiting;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const bool alive = seen_[r].beat_s < std::max(verdict.still_s / 2, 4 * passed_s);
    verdict.alive.push_back(alive);
    (!alive ? silent : waits(ranks[r]) ? waiting : busy).push_back(static_cast<int>(r));
  }
  verdict.silent = !silent.empty();
  verdict.behind = verdict.silent  ? silent
                   : !busy.empty() ? earliest(ranks, busy, false)
                                   : earliest(ranks, waiting, true);
  const auto first_alive = std::find(verdict.alive.begin(), verdict.alive.end(), true);
  verdict.speaker = first_alive == verdict.alive.end() ? 0 : static_cast<int>(first_alive - verdict.alive.begin());
  const bool patient = !verdict.silent && !verdict.behind.empty() && !busy.empty() &&
                       long_by_nature(ranks[static_cast<size_t>(verdict.behind[0])].section);
  verdict.allowed_s = (patient ? 3 : 1) * limits_.abort_s;
  verdict.stalled = verdict.still_s >= verdict.allowed_s;
  const bool late = verdict.still_s >= limits_.warn_s;
  verdict.warn = late && !warned_ && !verdict.stalled;
  warned_ = late;
  return verdict;
}

static std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  std::vector<std::string> numbers;
  for (const int rank : ranks) numbers.push_back(std::to_string(rank));
  if (numbers.size() > 8) {
    const size_t more = numbers.size() - 8;
    numbers.resize(8);
    return fmt::format("ranks {} and {} more", join(numbers, ", "), more);
  }
  return "ranks " + join(numbers, ", ");
}

// "data loading at step 600 on node17"
static std::string last_seen(const RankState& rank, const std::string& host) {
  std::string text = name_of(rank.section);
  if (rank.section == Section::reduce && rank.sums > 0) text += fmt::format(" {}", rank.sums);
  if (rank.section != Section::start && rank.section != Section::finish) text += fmt::format(" at step {}", rank.step);
  return text + " on " + host;
}

// How many ranks MPI still waits for while it starts; "" later.
static std::string absence(const std::vector<RankState>& known, int wanted) {
  const int absent = wanted - static_cast<int>(known.size());
  if (absent <= 0 || known[0].section != Section::start) return "";
  return "; MPI's start waits for the other " + count_of(absent, "rank") + ", which have not all come";
}

std::string stall_sentence(const StallJudge::Verdict& verdict, const std::vector<RankState>& ranks,
                           const std::vector<std::string>& hosts, int own, int wanted) {
  const RankState& mine = ranks[static_cast<size_t>(own)];
  std::string text = "stalled " + fixed(verdict.still_s, 0) + " s in " + place_of(mine);
  if (ranks.size() == 1) {
    text += absence(ranks, wanted);
  } else if (verdict.behind.empty()) {
    text += "; all ranks wait for each other there, so the network between them may be at fault";
  } else if (verdict.behind == std::vector<int>{own}) {
    text += "; the other ranks wait for this one";
  } else {
    const auto first = static_cast<size_t>(verdict.behind[0]);
    text += "; waiting for " + ranks_text(verdict.behind) + ", last seen in " + last_seen(ranks[first], hosts[first]);
    text += verdict.silent ? ": no sign of life, stopped or cut off" : ": alive, but behind";
  }
  return text + "; more than distributed.watchdog.abort allows; the same command continues from what it has saved";
}

std::string warning_sentence(const StallJudge::Verdict& verdict, const std::vector<RankState>& ranks,
                             const std::vector<std::string>& hosts, int wanted) {
  const std::string since = "no rank has made progress for " + fixed(verdict.still_s, 0) + " s";
  std::string who = ranks.size() > 1 ? "; all wait for each other" : absence(ranks, wanted);
  if (!verdict.behind.empty()) {
    const auto first = static_cast<size_t>(verdict.behind[0]);
    who = (ranks.size() > 1 ? "; waiting for " + ranks_text(verdict.behind) + ", last seen in " : ": ") +
          last_seen(ranks[first], hosts[first]) + (verdict.silent ? ", without a sign of life" : "");
  }
  const std::string then = verdict.allowed_s < std::numeric_limits<double>::infinity()
                               ? "; the job ends after " + fixed(verdict.allowed_s, 0) + " s of it"
                               : "";
  return since + who + then;
}

}  // namespace dtrain
