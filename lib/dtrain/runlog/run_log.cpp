#include "dtrain/runlog/run_log.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"
#include "dtrain/runlog/event_file.hpp"

namespace dtrain {

constexpr int64_t kMostBytes = int64_t{4} << 30;  // of a log that is read back

using Cell = std::pair<std::string, std::optional<double>>;

static std::vector<Cell> cells(const EpochRow& row) {
  const auto count = [](int64_t value) { return static_cast<double>(value); };
  const auto timed = [&](double Timing::*seconds) { return Cell{timing_name(seconds), row.timing.*seconds}; };
  std::vector<Cell> all = {{"epoch", count(row.epoch)},
                           {"steps", count(row.steps)},
                           {"samples", count(row.samples)},
                           {"train_loss", row.train_loss},
                           {"valid_loss", row.valid_loss},
                           {"learning_rate", row.learning_rate},
                           timed(&Timing::epoch_seconds),
                           {"elapsed_s", row.elapsed_s},
                           {"images_per_s", row.images_per_s()},
                           timed(&Timing::data_wait_s),
                           timed(&Timing::allreduce_s),
                           {"valid_seconds", row.valid_seconds},
                           {"queue_fill", row.queue_fill},
                           {"read_mb_per_s", row.read_mb_per_s},
                           {"gpu_util_percent", row.gpu_util_percent},
                           {"memory_peak_mb", row.memory_peak_mb},
                           {"ranks", count(row.ranks)},
                           {"logical_ranks", count(row.logical_ranks)}};
  all.insert(all.end(), row.figures.begin(), row.figures.end());
  all.insert(all.end(), {timed(&Timing::compute_s),
                         timed(&Timing::imbalance_s),
                         timed(&Timing::update_s),
                         {"skipped_steps", count(row.skipped_steps)},
                         {"replaced_samples", count(row.replaced_samples)},
                         {"gpu_memory_peak_mb", row.gpu_memory_peak_mb}});
  return all;
}

static std::vector<std::string> names_of(const std::vector<Cell>& cells) {
  std::vector<std::string> names;
  for (const Cell& cell : cells) names.push_back(cell.first);
  return names;
}

std::vector<std::string> epoch_columns(const std::vector<std::string>& figures) {
  EpochRow row;
  for (const std::string& figure : figures) row.figures.emplace_back(figure, std::nullopt);
  return names_of(cells(row));
}

std::optional<double> monitored(const EpochRow& row, const std::string& monitor) {
  std::string column = monitor;
  if (const size_t dot = column.find('.'); dot != std::string::npos) column[dot] = '_';
  std::vector<std::string> names;
  for (const Cell& cell : cells(row)) {
    const bool same_on_all_ranks =
        (cell.first.starts_with("valid_") || cell.first.starts_with("train_")) && cell.first != "valid_seconds";
    if (!same_on_all_ranks) continue;
    if (cell.first == column) return cell.second && std::isfinite(*cell.second) ? cell.second : std::nullopt;
    names.push_back(cell.first);
  }
  throw ConfigError("monitor '" + monitor + "' is not a column of epochs.csv that training can watch; this run has " +
                    join(names, ", "));
}

static std::string csv_line(const std::vector<std::string>& fields) {
  std::vector<std::string> quoted;
  for (const std::string& field : fields) quoted.push_back(csv_field(field));
  return join(quoted, ",") + "\n";
}

static std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Keeps of the whole lines of a file what `kept` makes of them, nothing of some; a torn last line goes.
static void cut_back(const std::string& path, FileSystem& files,
                     const std::function<std::optional<std::string>(const std::string&)>& kept) {
  FileSystem::Status status;
  if (files.status(path, false, status) == -ENOENT) return;
  const std::string text = text_of(read_file(path, kMostBytes, files));
  std::string left;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    if (const auto line = kept(text.substr(begin, end - begin))) left += *line + "\n";
    begin = end + 1;
  }
  if (left != text) write_file_atomically(path, left, files);
}

// Which of `columns` the header of a table has; empty where it has others, or these in another order.
static std::vector<bool> columns_in(const std::string& header, const std::vector<std::string>& columns) {
  std::vector<bool> there;
  size_t at = 0;
  for (const std::string& column : columns) {
    const std::string field = csv_field(column);
    const size_t end = at + field.size();
    const bool here = header.compare(std::min(at, header.size()), field.size(), field) == 0 &&
                      (end == header.size() || (end < header.size() && header[end] == ','));
    there.push_back(here);
    if (here) at = end + 1;
  }
  return at == header.size() + 1 ? there : std::vector<bool>{};
}

// A row of numbers, with an empty field for each column that its table did not have.
static std::string widened(const std::string& row, const std::vector<bool>& there, const std::string& path) {
  const std::vector<std::string> fields = split_text(row, ',');
  if (fields.size() != static_cast<size_t>(std::count(there.begin(), there.end(), true)))
    throw DataError(
        path + " has a row with " + std::to_string(fields.size()) +
        " fields, which does not match its header; start with --resume never, which moves the old folder aside");
  std::vector<std::string> all;
  auto next = fields.begin();
  for (const bool here : there) all.push_back(here ? *next++ : "");
  return join(all, ",");
}

// 0 where there is none.
static int64_t number_or_none(const nlohmann::json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

// Rows begin with the number of their epoch.
void RunLog::open_table(File& file, const std::vector<std::string>& columns, int64_t epochs_done) {
  const std::string header = csv_line(columns);
  std::vector<bool> there;  // an older program had fewer columns
  cut_back(file.path, files_, [&](const std::string& line) -> std::optional<std::string> {
    if (there.empty()) {
      there = columns_in(line, columns);
      if (there.empty())
        throw ConfigError(file.path +
                          " has other columns than this run would write; start with --resume never, which moves the "
                          "old folder aside");
      return header.substr(0, header.size() - 1);
    }
    if (std::atoll(line.c_str()) > epochs_done) return std::nullopt;
    return widened(line, there, file.path);
  });
  file.descriptor = open_to_append(file.path, files_);
  FileSystem::Status status;
  if (files_.status(file.descriptor, status) == 0 && status.bytes == 0) append(file, header);
}

static std::vector<Cell> cells(const RankRow& row) {
  std::vector<Cell> all = {{"epoch", static_cast<double>(row.epoch)}, {"rank", static_cast<double>(row.rank)}};
  for (const TimingField& field : kTimingFields) all.emplace_back(field.name, row.timing.*field.seconds);
  all.insert(all.end(), {{"memory_peak_mb", row.memory_peak_mb},
                         {"gpu_memory_peak_mb", row.gpu_memory_peak_mb},
                         {"step_ms_median", row.step_ms_median},
                         {"step_ms_p95", row.step_ms_p95}});
  return all;
}

// "" for what is not defined.
static std::vector<std::string> values_of(const std::vector<Cell>& cells) {
  std::vector<std::string> values;
  for (const Cell& cell : cells)
    values.push_back(cell.second && std::isfinite(*cell.second) ? shortest(*cell.second) : "");
  return values;
}

RunLog::RunLog(const std::string& folder, const std::vector<std::string>& figures, int64_t epochs_done,
               int64_t steps_done, FileSystem& files, bool tensorboard)
    : files_(files),
      csv_{folder + "/epochs.csv"},
      ranks_{folder + "/ranks.csv"},
      jsonl_{folder + "/metrics.jsonl"},
      columns_(epoch_columns(figures)) {
  open_table(csv_, columns_, epochs_done);
  open_table(ranks_, names_of(cells(RankRow())), epochs_done);
  cut_back(jsonl_.path, files, [&](const std::string& line) -> std::optional<std::string> {
    const auto event = try_parse_json(line);
    if (!event.is_object() || number_or_none(event, "step") > steps_done) return std::nullopt;
    const auto kind = event.find("event");
    const bool is_epoch = kind != event.end() && *kind == "epoch";
    if (is_epoch && number_or_none(event, "epoch") > epochs_done) return std::nullopt;
    return line;
  });
  jsonl_.descriptor = open_to_append(jsonl_.path, files_);
  if (tensorboard) open_events(folder, epochs_done, steps_done);
}

static double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void RunLog::open_events(const std::string& folder, int64_t epochs_done, int64_t steps_done) {
  const std::string place = folder + "/tensorboard";
  const std::string mark = "events.out.tfevents.";
  const std::string ours = ".dtrain";  // other programs' files may lie beside them
  if (const int failed = files_.make_folder(place, 0750); failed < 0 && failed != -EEXIST)
    throw_errno("create", place, -failed);
  std::vector<std::string> names;
  if (const int failed = files_.list(place, names); failed < 0) throw_errno("list", place, -failed);
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(mark) || !name.ends_with(ours); });
  const double now = seconds_since_1970();
  begins_events_ = true;
  events_.path = place + "/" + mark + std::to_string(static_cast<int64_t>(now)) + "." + host_name() + ours;
  if (!names.empty()) {
    events_.path = place + "/" + *std::max_element(names.begin(), names.end());
    const std::string text = text_of(read_file(events_.path, kMostBytes, files_));
    const std::string kept = steps_done == 0 ? "" : events_until(text, steps_done, epochs_done);
    if (kept != text) write_file_atomically(events_.path, kept, files_);
    begins_events_ = kept.empty();
  }
  if (begins_events_) events_.waiting = event_version(now);
  events_.descriptor = open_to_append(events_.path, files_);
}

void RunLog::add_events(int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  constexpr double kBetweenWrites = 1;  // seconds
  if (events_.path.empty()) return;
  events_.waiting += event_of_scalars(seconds_since_1970(), step, scalars);
  if (kept_back_ || since_events_.seconds() < kBetweenWrites) return;
  since_events_.restart();
  write_waiting(events_);
}

RunLog::~RunLog() {
  flush();
  for (const File* file : {&csv_, &ranks_, &jsonl_, &events_})
    if (file->descriptor >= 0) files_.close(file->descriptor);
}

// One write per line where the disk takes it: a line is either there or not, whatever kills the process.
std::string RunLog::write_waiting(File& file) {
  while (!file.waiting.empty()) {
    const ssize_t count = files_.write(file.descriptor, std::as_bytes(std::span(file.waiting)));
    if (count == -EINTR) continue;
    if (count <= 0)
      return "cannot write to " + file.path + ": " + std::strerror(count < 0 ? static_cast<int>(-count) : ENOSPC);
    file.waiting.erase(0, static_cast<size_t>(count));
  }
  return "";
}

void RunLog::sync() const {
  for (const File* file : {&csv_, &ranks_, &jsonl_, &events_}) {
    if (file->descriptor < 0) continue;
    if (const int failed = files_.sync(file->descriptor); failed < 0 && failed != -EINVAL && failed != -ENOTSUP)
      throw_errno("sync", file->path, -failed);
  }
}

bool RunLog::stands() const {
  const auto is_there = [&](const File& file) {
    FileSystem::Status opened;
    FileSystem::Status named;
    const int failed = files_.status(file.path, false, named);
    if (failed == -ENOENT || failed == -ENOTDIR || failed == -ELOOP) return false;
    if (failed < 0 || files_.status(file.descriptor, opened) < 0) return true;  // a disk that does not answer
    return opened.device == named.device && opened.inode == named.inode;
  };
  return is_there(csv_) && is_there(jsonl_);
}

void RunLog::copy_to(const std::string& folder) const {
  for (const File* file : {&csv_, &ranks_, &jsonl_, &events_}) {
    if (file->path.empty()) continue;
    FileSystem::Status status;
    if (const int failed = files_.status(file->descriptor, status); failed < 0)
      throw_errno("inspect", file->path, -failed);
    std::vector<std::byte> bytes(static_cast<size_t>(status.bytes));
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t got = files_.read_at(file->descriptor, static_cast<int64_t>(done), std::span(bytes).subspan(done));
      if (got <= 0) throw_errno("read", file->path, got < 0 ? static_cast<int>(-got) : EIO);
      done += static_cast<size_t>(got);
    }
    const std::string place = folder + file->path.substr(csv_.path.rfind('/'));
    make_folders(std::filesystem::path(place).parent_path().string());
    write_file_atomically(place, text_of(bytes) + file->waiting);
  }
}

void RunLog::append(File& file, const std::string& line) {
  file.waiting += line;
  if (!kept_back_) write_waiting(file);
}

std::string RunLog::flush() {
  if (kept_back_) return "";
  std::string failed;
  for (File* file : {&csv_, &ranks_, &jsonl_, &events_})
    if (const std::string why = write_waiting(*file); failed.empty()) failed = why;
  return failed;
}

void RunLog::step(const StepRow& row) {
  nlohmann::ordered_json event = {{"event", "step"},        {"time", utc_now()},
                                  {"step", row.step},       {"epoch", row.epoch},
                                  {"train_loss", row.loss}, {"learning_rate", row.learning_rate},
                                  {"step_s", row.seconds},  {"images_per_s", row.images_per_s()}};
  if (row.loss_scale) event["loss_scale"] = *row.loss_scale;
  if (row.skipped) event["skipped"] = true;
  append(jsonl_, event.dump() + "\n");
  std::vector<std::pair<std::string, double>> scalars = {{"step/loss", row.loss},
                                                         {"step/learning_rate", row.learning_rate},
                                                         {"step/seconds", row.seconds},
                                                         {"step/images_per_s", row.images_per_s()}};
  if (row.loss_scale) scalars.emplace_back("step/loss_scale", *row.loss_scale);
  add_events(row.step, scalars);
}

// Counts are whole numbers in JSON, measurements are not.
static nlohmann::ordered_json json_value(const Cell& cell) {
  if (!cell.second || !std::isfinite(*cell.second)) return nullptr;
  for (const char* count : {"epoch", "steps", "samples", "ranks", "logical_ranks", "skipped_steps", "replaced_samples"})
    if (cell.first == count) return static_cast<int64_t>(*cell.second);
  return *cell.second;
}

// The panel of TensorBoard that a column goes into: "valid_auroc" is auroc in "valid".
static std::string tag_of(const std::string& column) {
  for (const std::string part : {"train", "valid"})
    if (column.starts_with(part + "_") && column != "valid_seconds") return part + "/" + column.substr(part.size() + 1);
  return "epoch/" + column;
}

void RunLog::epoch(const EpochRow& row, int64_t step) {
  nlohmann::ordered_json event = {{"event", "epoch"}, {"time", utc_now()}, {"step", step}};
  const std::vector<Cell> all = cells(row);
  check(names_of(all) == columns_, "a row has the header's columns in its order");
  std::vector<std::pair<std::string, double>> scalars;  // the epoch's number first: events_until() looks for it
  for (const Cell& cell : all) {
    event[cell.first] = json_value(cell);
    if (cell.second && std::isfinite(*cell.second)) scalars.emplace_back(tag_of(cell.first), *cell.second);
  }
  append(csv_, csv_line(values_of(all)));
  append(jsonl_, event.dump() + "\n");
  add_events(step, scalars);
}

void RunLog::ranks(const std::vector<RankRow>& rows) {
  for (const RankRow& row : rows) append(ranks_, csv_line(values_of(cells(row))));
}

void RunLog::picture(const std::string& tag, int64_t step, std::span<const std::byte> png) {
  if (!events_.path.empty()) events_.waiting += event_of_picture(seconds_since_1970(), step, tag, png);
}

void RunLog::event(const std::string& name, int64_t step, int64_t epoch,
                   const std::map<std::string, std::string>& texts) {
  nlohmann::ordered_json event = {{"event", name}, {"time", utc_now()}, {"step", step}, {"epoch", epoch}};
  for (const auto& [key, text] : texts) event[key] = text;
  append(jsonl_, event.dump() + "\n");
}

}  // namespace dtrain
