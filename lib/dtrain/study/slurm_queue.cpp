#include "dtrain/study/slurm_queue.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/study/run_result.hpp"
#include "dtrain/study/slurm_call.hpp"

namespace dtrain {
namespace {

std::optional<int64_t> number_if_whole(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

template <size_t N>
bool is_among(const std::string& word, const std::array<const char*, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array kWaits = {"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"};
constexpr std::array kIsOver = {"BOOT_FAIL", "CANCELLED", "COMPLETED",     "DEADLINE", "FAILED",
                                "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "REVOKED",  "TIMEOUT"};

// What train.sbatch says of a start.
constexpr std::string_view kBegan = "train.sbatch: job ";
constexpr std::string_view kEnded = "train.sbatch: dtrain ended with ";
constexpr std::string_view kRefused = "train.sbatch: error ";

/// The last start of which a log tells.
struct LastStart {
  std::optional<int> code = std::nullopt;  ///< nothing: it did not end by itself
  std::string refusal = "";                ///< of the batch script, where it started nothing
};

LastStart last_start(const std::string& log) {
  LastStart start;
  for (const std::string& line : split_text(log, '\n')) {
    if (line.starts_with(kBegan)) start = {};
    const bool refused = line.starts_with(kRefused);
    if (!refused && !line.starts_with(kEnded)) continue;
    const std::string rest = line.substr(refused ? kRefused.size() : kEnded.size());
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const auto code = number_if_whole(std::string_view(rest).substr(0, digits));
    if (!code) continue;
    start.code = static_cast<int>(*code);
    if (refused) start.refusal = trimmed(std::string_view(rest).substr(std::min(rest.size(), digits + 1)));
  }
  return start;
}

std::string text_from(const std::string& path, int64_t from) {
  if (!is_there(path)) return "";
  const std::string text = read_text(path);
  return text.substr(std::min(text.size(), static_cast<size_t>(from)));
}

// What Slurm says when it ends a job: "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT … DUE TO TIME LIMIT ***"
std::string line_of_slurm(const std::string& output) {
  std::string found;
  for (const std::string& line : split_text(output, '\n'))
    if (line.find("*** ") != std::string::npos && line.find("CANCELLED") != std::string::npos) found = trimmed(line);
  const size_t stars = found.find("*** ");
  if (stars == std::string::npos) return "";
  found = found.substr(stars + 4);
  return found.substr(0, found.find(" ***"));
}

}  // namespace

std::vector<std::string> squeue_words(unsigned user) {
  return {"--noheader", "--array", "--user=" + std::to_string(user), "--format=%F|%K|%T|%r|%j"};
}

SlurmQueue read_queue(const std::string& text) {
  SlurmQueue queue;
  for (const std::string& line : split_text(text, '\n')) {
    const std::vector<std::string> fields = split_text(line, '|');
    if (fields.size() != 5 || !number_if_whole(fields[0])) continue;
    const std::optional<int64_t> task = number_if_whole(fields[1]);
    if (!task || is_among(fields[2], kIsOver)) continue;
    const bool waits = is_among(fields[2], kWaits);
    const QueuedTask found{fields[0] + "_" + fields[1], waits ? PointState::queued : PointState::running,
                           waits ? fields[3] : ""};
    const auto [place, is_new] = queue.try_emplace({fields[4], *task}, found);
    if (!is_new && !waits) place->second = found;
  }
  return queue;
}

std::string job_number_in(const std::string& text) {
  std::string number;
  for (const std::string& line : split_text(text, '\n')) {
    const std::string first = split_text(trimmed(line), ';').front();
    if (number_if_whole(first)) number = first;
  }
  return number;
}

TaskEnd end_of_task(const TaskTraces& traces) {
  const LastStart start = last_start(text_from(traces.log, traces.log_from));
  const std::string output = text_from(traces.output, traces.output_from);
  const int code = start.code.value_or(exit_code::kDone);
  const bool own = code >= exit_code::kUsage && code <= exit_code::kReplicasDiffer && code != exit_code::kStopped;
  const auto why = [&] { return start.refusal.empty() ? last_sentence(traces.log, traces.log_from) : start.refusal; };
  if (own) return {TaskEnd::Kind::failed, code, why()};
  if (const std::string line = line_of_slurm(output); !line.empty()) return {TaskEnd::Kind::stopped, 0, line};
  if (!start.code) return {TaskEnd::Kind::lost, 0, last_line(output)};
  if (code == exit_code::kDone || code == exit_code::kStopped) return {TaskEnd::Kind::stopped, 0, ""};
  return {TaskEnd::Kind::failed, code, why()};
}

}  // namespace dtrain
