#include "dtrain/watch/flight_records.hpp"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"

namespace dtrain {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFormat = "dtrain-flight-1";
constexpr int64_t kMostBytes = 1 << 20;
constexpr int kMostRanks = 1 << 20;

static std::string folder_of(const std::string& run_folder) { return run_folder + "/flight"; }

// The names of the records in a folder; with `leftovers` also of temporary files whose writers were killed.
static std::vector<std::string> record_names(const std::string& folder, FileSystem& files, bool leftovers) {
  std::vector<std::string> all;
  if (const int failed = files.list(folder, all); failed < 0 && failed != -ENOENT) throw_errno("read", folder, -failed);
  std::vector<std::string> names;
  for (const std::string& name : all) {
    const bool temporary = name.ends_with(".json.tmp");
    if (name.starts_with("rank-") && (name.ends_with(".json") || (temporary && leftovers))) names.push_back(name);
  }
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

void remove_flight_records(const std::string& run_folder, FileSystem& files) {
  for (const std::string& name : record_names(folder_of(run_folder), files, true)) {
    const std::string path = folder_of(run_folder) + "/" + name;
    if (const int failed = files.unlink(path); failed < 0 && failed != -ENOENT) throw_errno("remove", path, -failed);
  }
}

static OrderedJson as_json(const FlightRecord& record) {
  OrderedJson json{{"format", kFormat},       {"rank", record.rank},         {"ranks", record.ranks},
                   {"host", record.host},     {"pid", record.pid},           {"time", utc_now()},
                   {"reason", record.reason}, {"sentence", record.sentence}, {"waited_for", record.waited_for}};
  json["ranks_seen"] = OrderedJson::array();
  for (const FlightRecord::Peer& peer : record.peers)
    json["ranks_seen"].push_back({{"rank", peer.rank},
                                  {"host", peer.host},
                                  {"pid", peer.pid},
                                  {"section", peer.section},
                                  {"step", peer.step},
                                  {"all_reduce", peer.sums},
                                  {"still_s", peer.still_s},
                                  {"alive", peer.alive}});
  json["events"] = OrderedJson::array();
  for (const FlightRecord::Event& event : record.events)
    json["events"].push_back(
        {{"ago_s", event.ago_s}, {"what", event.what}, {"step", event.step}, {"all_reduce", event.sums}});
  json["stack"] = record.stack;
  return json;
}

static void write_all(FileSystem& files, int file, const std::string& text, const std::string& path) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = files.write(file, std::as_bytes(std::span(text)).subspan(done));
    if (written == -EINTR) continue;
    if (written < 0) {
      files.close(file);
      files.unlink(path);
      throw_errno("write", path, static_cast<int>(-written));
    }
    done += static_cast<size_t>(written);
  }
}

void write_flight_record(const std::string& run_folder, const FlightRecord& record, FileSystem& files) {
  const std::string folder = folder_of(run_folder);
  if (const int failed = files.make_folder(folder, 0750); failed < 0 && failed != -EEXIST)
    throw_errno("make", folder, -failed);
  char name[32];
  std::snprintf(name, sizeof name, "/rank-%04d.json", record.rank);
  const std::string path = folder + name;
  const std::string temporary = path + ".tmp";
  files.unlink(temporary);
  const int file = files.open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
  if (file < 0) throw_errno("write", temporary, -file);
  write_all(files, file, as_json(record).dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n", temporary);
  files.close(file);
  if (const int failed = files.rename(temporary, path); failed < 0) throw_errno("write", path, -failed);
}

namespace {

struct Read {
  FlightRecord record;
  std::string time;
};

Read read_record(const std::string& path, FileSystem& files) {
  const std::vector<std::byte> bytes = read_file(path, kMostBytes, files);
  const nlohmann::json json = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  if (json.at("format") != kFormat) throw DataError("not of the format " + std::string(kFormat));
  Read read;
  FlightRecord& record = read.record;
  read.time = json.at("time").get<std::string>();
  record.rank = json.at("rank").get<int>();
  record.ranks = json.at("ranks").get<int>();
  if (record.ranks < 1 || record.ranks > kMostRanks || record.rank < 0)
    throw DataError(fmt::format("rank {} of {} cannot be", record.rank, record.ranks));
  record.host = json.at("host").get<std::string>();
  record.pid = json.at("pid").get<long>();
  record.reason = json.at("reason").get<std::string>();
  record.sentence = json.at("sentence").get<std::string>();
  record.waited_for = json.at("waited_for").get<std::vector<int>>();
  for (const auto& peer : json.at("ranks_seen"))
    record.peers.push_back({peer.at("rank").get<int>(), peer.at("host").get<std::string>(), peer.at("pid").get<long>(),
                            peer.at("section").get<std::string>(), peer.at("step").get<int64_t>(),
                            peer.at("all_reduce").get<int64_t>(), peer.at("still_s").get<double>(),
                            peer.at("alive").get<bool>()});
  for (const auto& event : json.at("events"))
    record.events.push_back({event.at("ago_s").get<double>(), event.at("what").get<std::string>(),
                             event.at("step").get<int64_t>(), event.at("all_reduce").get<int64_t>()});
  record.stack = json.at("stack").get<std::vector<std::string>>();
  return read;
}

const FlightRecord::Peer* seen(const FlightRecord& record, int rank) {
  for (const FlightRecord::Peer& peer : record.peers)
    if (peer.rank == rank) return &peer;
  return nullptr;
}

// "all-reduce 12, step 5"
std::string place(const FlightRecord::Peer& peer) {
  const bool reduce = peer.section == "all-reduce" && peer.sums > 0;
  return reduce ? fmt::format("{} {}, step {}", peer.section, peer.sums, peer.step)
                : fmt::format("{}, step {}", peer.section, peer.step);
}

std::string rank_at(int rank, const FlightRecord::Peer& peer) {
  return fmt::format("rank {} ({}, pid {})", rank, peer.host, peer.pid);
}

// Where the training thread was: the innermost call outside the C library and the kernel's entry code (vdso).
std::string innermost(const std::vector<std::string>& stack) {
  for (const std::string& line : stack)
    if (line.find("libc.so") == std::string::npos && line.find("linux-vdso") == std::string::npos) return line;
  return stack.empty() ? "" : stack.front();
}

std::string about_own(const Read& read) {
  const FlightRecord& record = read.record;
  const FlightRecord::Peer* own = seen(record, record.rank);
  std::string text = fmt::format("rank {} on {}, {}", record.rank, record.host, read.time);
  if (record.reason == "failure") return text + ": " + record.sentence;
  if (own != nullptr && record.reason == "stopped")
    return text + ": was stopped in " + place(*own) + " and woken after the others had given up";
  if (own != nullptr) text += fmt::format(": {}, for {} s in {}", record.reason, fixed(own->still_s, 0), place(*own));
  const std::string call = innermost(record.stack);
  return text + (call.empty() ? "; its training thread gave no stack" : "; its training thread was in " + call);
}

// The conclusion: after a failure the failing rank's sentence, after a stall the ranks that most records waited for.
std::string conclusion(const std::map<int, Read>& records) {
  for (const auto& [rank, read] : records)
    if (read.record.reason == "failure") return fmt::format("rank {} failed: {}", rank, read.record.sentence);
  std::map<std::vector<int>, int> votes;
  for (const auto& [rank, read] : records)
    if (read.record.reason == "stall") ++votes[read.record.waited_for];
  if (votes.empty()) return "a rank failed without leaving a record";
  const auto most =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most->first.empty()) return "the job stalled with all ranks waiting for each other: look at the network";
  std::vector<std::string> behind;
  for (const int rank : most->first) {
    std::string text = fmt::format("rank {}", rank);
    for (const auto& [teller, read] : records)
      if (const FlightRecord::Peer* peer = seen(read.record, rank)) {
        text = fmt::format("{}, last seen in {}, {}", rank_at(rank, *peer), place(*peer),
                           peer->alive ? "alive" : "without a sign of life");
        break;
      }
    behind.push_back(text);
  }
  return "the job stalled, waiting for " + join(behind, "; ");
}

}  // namespace

std::vector<std::string> explain_flight_records(const std::string& run_folder, FileSystem& files) {
  std::map<int, Read> records;
  std::vector<std::string> damaged;
  for (const std::string& name : record_names(folder_of(run_folder), files, false)) {
    const std::string path = folder_of(run_folder) + "/" + name;
    try {
      Read read = read_record(path, files);
      const int rank = read.record.rank;
      records.emplace(rank, std::move(read));
    } catch (const std::exception& error) {
      damaged.push_back(path + " cannot be understood: " + error.what());
    }
  }
  std::vector<std::string> sentences;
  if (!records.empty()) {
    sentences.push_back(conclusion(records));
    const FlightRecord& first = records.begin()->second.record;
    for (int rank = 0; rank < first.ranks && first.ranks > 1; ++rank) {
      if (records.contains(rank)) continue;
      const FlightRecord::Peer* peer = seen(first, rank);
      sentences.push_back(fmt::format("{} left no record: it was stopped, gone or cut off{}",
                                      peer != nullptr ? rank_at(rank, *peer) : fmt::format("rank {}", rank),
                                      peer != nullptr ? "; last seen in " + place(*peer) : ""));
    }
  }
  for (const auto& [rank, read] : records) sentences.push_back(about_own(read));
  sentences.insert(sentences.end(), damaged.begin(), damaged.end());
  return sentences;
}

}  // namespace dtrain
