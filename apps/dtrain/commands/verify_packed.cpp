#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands/commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/parallel.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/store/packed_set.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// What was found in one file.
struct Verdict {
  int64_t records = 0;
  int64_t bytes = 0;
  std::vector<Error> errors;
};

// Reads every record, so that all damaged ones are named.
void read_records(const PackedShard& shard, Verdict& verdict) {
  verdict.records = shard.records();
  verdict.bytes = shard.bytes();
  for (int64_t record = 0; record < shard.records(); ++record) {
    try {
      shard.read(record);
    } catch (const Error& error) {
      verdict.errors.push_back(error);
    }
  }
}

// `manifest`: null for a shard by itself; `number`: the shard's in the manifest.
Verdict look_at(const std::string& path, const PackedManifest* manifest, size_t number) {
  Verdict verdict;
  try {
    if (manifest == nullptr || manifest->to == "packed") {
      const PackedShard shard{MappedFile(path)};
      read_records(shard, verdict);
      if (manifest != nullptr) require_listed(shard, *manifest, static_cast<int64_t>(number));
      return verdict;
    }
    const PackedManifest::Shard& listed = manifest->shards[number];
    const MappedFile file(path);
    verdict.records = listed.records;
    verdict.bytes = file.size();
    if (file.size() != listed.bytes || file.checksum(file.bytes()) != listed.checksum)
      throw DataError(path + " does not have the bytes that " + PackedManifest::kFile + " lists under its name");
  } catch (const Error& error) {
    verdict.errors.push_back(error);
  }
  return verdict;
}

/// Prints a line for each file, in order, and keeps the errors for the end.
class Report {
 public:
  void add(const std::string& path, const Verdict& verdict) {
    OrderedJson file = {
        {"path", path}, {"ok", verdict.errors.empty()}, {"records", verdict.records}, {"bytes", verdict.bytes}};
    if (verdict.errors.empty()) {
      std::printf("%s: ok: %s, %s bytes\n", printable(path).c_str(), count_of(verdict.records, "record").c_str(),
                  with_commas(verdict.bytes).c_str());
    } else {
      std::printf("%s: damaged\n", printable(path).c_str());
      file["errors"] = OrderedJson::array();
      for (const Error& error : verdict.errors) file["errors"].push_back(shown(error.what()));
    }
    errors_.insert(errors_.end(), verdict.errors.begin(), verdict.errors.end());
    files_.push_back(std::move(file));
  }
  void note(const std::string& sentence) {
    std::printf("note: %s\n", printable(sentence).c_str());
    notes_.push_back(sentence);
  }
  int end(const VerifyCommand& command) const {
    if (command.json) {
      const OrderedJson all = {
          {"path", command.path}, {"kind", "packed"}, {"ok", errors_.empty()}, {"files", files_}, {"notes", notes_}};
      std::printf("%s\n", printable(all.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)).c_str());
    }
    std::fflush(stdout);
    if (errors_.empty()) return exit_code::kDone;
    if (errors_.size() == 1) throw errors_.front();
    const Error all = merge_errors(errors_);
    throw Error(all.code(), with_list(count_of(static_cast<int64_t>(errors_.size()), "finding") + " against '" +
                                          command.path + "':",
                                      lines_of(all.what())));
  }

 private:
  OrderedJson files_ = OrderedJson::array();
  std::vector<std::string> notes_;
  std::vector<Error> errors_;
};

// Files that the manifest does not list.
void note_others(const std::string& folder, const PackedManifest& manifest, Report& report) {
  std::vector<std::string> names;
  real_file_system().list(folder, names);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const bool listed =
        name == PackedManifest::kFile || std::any_of(manifest.shards.begin(), manifest.shards.end(),
                                                     [&](const auto& shard) { return shard.file == name; });
    if (!listed) report.note(folder + "/" + name + " is not listed in " + PackedManifest::kFile + "; nothing reads it");
  }
}

void look_at_all(const std::string& folder, const PackedManifest& manifest, Report& report) {
  std::vector<Verdict> verdicts(manifest.shards.size());
  const auto path_of = [&](size_t i) { return folder + "/" + manifest.shards[i].file; };
  run_in_parallel(verdicts.size(), bound_cores().size(),
                  [&](size_t i) { verdicts[i] = look_at(path_of(i), &manifest, i); });
  for (size_t i = 0; i < verdicts.size(); ++i) report.add(path_of(i), verdicts[i]);
}

}  // namespace

bool is_packed(const std::string& path) {
  return is_folder(path) ? is_file(path + "/" + PackedManifest::kFile) : is_packed_shard(path);
}

int verify_packed(const VerifyCommand& command) {
  Report report;
  std::string folder = command.path;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  if (!is_folder(folder)) {
    report.add(folder, look_at(folder, nullptr, 0));
    return report.end(command);
  }
  const PackedManifest manifest = read_packed_manifest(folder);
  if (!manifest.complete)
    throw DataError("'" + folder +
                    "' is not completely packed; run the same dtrain pack again, it continues from there");
  look_at_all(folder, manifest, report);
  note_others(folder, manifest, report);
  return report.end(command);
}

}  // namespace dtrain
