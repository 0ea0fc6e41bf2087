#include "dtrain/runlog/run_log.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/runlog/run_folder.hpp"
#include "dtrain/runlog/run_lock.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

static EpochRow row_of(int64_t epoch) {
  EpochRow row;
  row.epoch = epoch;
  row.steps = 10;
  row.samples = 100;
  row.train_loss = 0.5;
  row.valid_loss = 0.25;
  row.timing.epoch_seconds = 2;
  row.figures = {{"valid_auroc", 0.75}, {"valid_auroc_Hernia", std::nullopt}};
  return row;
}

static CsvTable epochs_of(const test::TemporaryFolder& folder) { return CsvTable::read(folder / "epochs.csv"); }

static const std::vector<std::string> kFigures = {"valid_auroc", "valid_auroc_Hernia"};

TEST_CASE("epochs.csv begins as the contract fixes it") {
  CHECK(join(epoch_columns(kFigures), ",") ==
        "epoch,steps,samples,train_loss,valid_loss,learning_rate,epoch_seconds,elapsed_s,images_per_s,data_wait_s,"
        "allreduce_s,valid_seconds,"
        "queue_fill,read_mb_per_s,gpu_util_percent,memory_peak_mb,ranks,logical_ranks,valid_auroc,valid_auroc_Hernia,"
        "compute_s,imbalance_s,update_s,skipped_steps,replaced_samples,gpu_memory_peak_mb");
}

TEST_CASE("a row is written once, undefined values are empty in CSV and null in JSON") {
  const test::TemporaryFolder folder;
  {
    RunLog log(folder.path(), kFigures, 0, 0);
    log.step({.step = 1, .loss = 0.7, .learning_rate = 0.01});
    log.step({.step = 2, .loss = 0.7, .learning_rate = 0.01, .loss_scale = 4096, .skipped = true});
    EpochRow row = row_of(1);
    row.gpu_util_percent = 42.5;
    log.epoch(row, 10);
  }
  const CsvTable rows = epochs_of(folder);
  REQUIRE(rows.rows() == 1);
  CHECK(rows.at(0, rows.column("images_per_s")) == "50");
  CHECK(rows.at(0, rows.column("valid_auroc_Hernia")).empty());
  CHECK(rows.at(0, rows.column("valid_auroc")) == "0.75");
  CHECK(rows.at(0, rows.column("gpu_util_percent")) == "42.5");
  CHECK(rows.at(0, rows.column("gpu_memory_peak_mb")).empty());
  const auto lines = split_text(read_text(folder / "metrics.jsonl"), '\n');
  const auto event = nlohmann::json::parse(lines[2]);
  CHECK(event["event"] == "epoch");
  CHECK(event["valid_auroc_Hernia"].is_null());
  CHECK(event["samples"].dump() == "100");
  const auto step = nlohmann::json::parse(lines[0]);
  CHECK(step["train_loss"] == 0.7);
  CHECK_FALSE((step.contains("skipped") || step.contains("loss_scale")));
  const auto skipped = nlohmann::json::parse(lines[1]);
  CHECK(skipped["skipped"] == true);
  CHECK(skipped["loss_scale"] == 4096);
}

TEST_CASE("a resumed run cuts back what came after the checkpoint, torn lines too") {
  const test::TemporaryFolder folder;
  {
    RunLog log(folder.path(), kFigures, 0, 0);
    for (int64_t epoch = 1; epoch <= 3; ++epoch) {
      log.step({.step = epoch * 10, .epoch = epoch - 1, .loss = 0.5, .learning_rate = 0.1});
      log.epoch(row_of(epoch), epoch * 10);
    }
  }
  std::ofstream(folder / "epochs.csv", std::ios::app) << "4,10,1";
  std::ofstream(folder / "metrics.jsonl", std::ios::app) << "{\"event\":\"st";
  {
    RunLog log(folder.path(), kFigures, 2, 20);
    log.epoch(row_of(3), 30);
  }
  const CsvTable rows = epochs_of(folder);
  REQUIRE(rows.rows() == 3);
  CHECK(rows.at(2, rows.column("epoch")) == "3");
  CHECK(split_text(read_text(folder / "metrics.jsonl"), '\n').size() == 6);  // 2 × (step, epoch), epoch, and the end
}

TEST_CASE("an epoch that a checkpoint stood just before is not reported twice") {
  const test::TemporaryFolder folder;
  {
    RunLog log(folder.path(), kFigures, 0, 0);
    log.step({.step = 10, .loss = 0.5, .learning_rate = 0.1});
    log.epoch(row_of(1), 10);
  }
  {
    RunLog log(folder.path(), kFigures, 0, 10);  // the checkpoint: step 10, no epoch finished
    log.epoch(row_of(1), 10);
  }
  CHECK(epochs_of(folder).rows() == 1);
  CHECK(split_text(read_text(folder / "metrics.jsonl"), '\n').size() == 3);
}

TEST_CASE("other columns than before are refused") {
  const test::TemporaryFolder folder;
  { RunLog log(folder.path(), kFigures, 0, 0); }
  CHECK_THROWS_AS(RunLog(folder.path(), {"valid_iou"}, 0, 0), ConfigError);
}

TEST_CASE("a table that an older program began gets the columns that it lacks, empty in its rows") {
  const test::TemporaryFolder folder;
  {
    RunLog log(folder.path(), kFigures, 0, 0);
    for (const int64_t epoch : {1, 2}) log.epoch(row_of(epoch), 10 * epoch);
  }
  // As if valid_loss, the second figure and the last column did not exist yet.
  const CsvTable now = epochs_of(folder);
  std::string older;
  for (int64_t row = -1; row < now.rows(); ++row) {
    std::vector<std::string> fields;
    for (int64_t column = 0; column < static_cast<int64_t>(now.columns().size()); ++column) {
      const std::string& name = now.columns()[static_cast<size_t>(column)];
      if (name == "valid_loss" || name == "valid_auroc_Hernia" || name == "replaced_samples") continue;
      fields.push_back(row < 0 ? name : now.at(row, column));
    }
    older += join(fields, ",") + "\n";
  }
  write_file_atomically(folder / "epochs.csv", older);
  {
    RunLog log(folder.path(), kFigures, 1, 10);
    log.epoch(row_of(2), 20);
  }
  const CsvTable rows = epochs_of(folder);
  CHECK(rows.columns() == now.columns());
  REQUIRE(rows.rows() == 2);
  CHECK(rows.at(0, rows.column("valid_loss")).empty());
  CHECK(rows.at(0, rows.column("replaced_samples")).empty());
  for (const char* name : {"epoch", "train_loss", "valid_auroc", "update_s", "skipped_steps"})
    CHECK(rows.at(0, rows.column(name)) == now.at(0, now.column(name)));
  for (const char* name : {"epoch", "valid_loss", "valid_auroc", "replaced_samples"})
    CHECK(rows.at(1, rows.column(name)) == now.at(1, now.column(name)));
  write_file_atomically(folder / "epochs.csv", older + "3,1\n");
  CHECK_THROWS_WITH(RunLog(folder.path(), kFigures, 3, 30), Catch::Contains("a row with 2 fields"));
}

TEST_CASE("monitor names a column that training can watch") {
  CHECK(monitored(row_of(1), "valid.auroc") == 0.75);
  CHECK(monitored(row_of(1), "valid.loss") == 0.25);
  CHECK_FALSE(monitored(row_of(1), "valid.auroc_Hernia"));
  CHECK_THROWS_WITH(monitored(row_of(1), "valid.iou"), Catch::Contains("valid_auroc"));
  CHECK_THROWS_AS(monitored(row_of(1), "epoch_seconds"), ConfigError);
}

TEST_CASE("a used run folder is moved aside, never overwritten") {
  const test::TemporaryFolder folder;
  const RunFolder run(folder / "run");
  CHECK_FALSE(run.used());
  run.make();
  write_file_atomically(run.file("config.yaml"), "seed: 1\n");
  CHECK(run.used());
  CHECK(run.move_aside() == folder / "run.1");
  CHECK_FALSE(run.used());
  run.make();
  write_file_atomically(run.file("config.yaml"), "seed: 2\n");
  CHECK(run.move_aside() == folder / "run.2");
  CHECK(read_text(folder / "run.1/config.yaml") == "seed: 1\n");
}

TEST_CASE("a run folder is one with a run's mark, an empty one, or none yet") {
  const test::TemporaryFolder folder;
  const RunFolder run(folder / "run");
  CHECK_NOTHROW(run.require_ours());
  run.make();
  CHECK_NOTHROW(run.require_ours());
  { const RunLock lock(run.path(), "process 1 on here"); }
  write_file_atomically(run.file("config.yaml"), "seed: 1\n");
  CHECK_NOTHROW(run.require_ours());
  std::ofstream(run.file(".lock")) << "process 4 on there\n";  // as version 0.1.0 left it when it was killed
  CHECK_NOTHROW(run.require_ours());
  std::ofstream(run.file(".lock")) << "";  // and when it ended
  CHECK_THROWS_AS(run.require_ours(), ConfigError);
  std::ofstream(run.file("run.json")) << R"({"fingerprint": "0", "logical_ranks": 2})";
  CHECK_NOTHROW(run.require_ours());
  std::ofstream(run.file("run.json")) << R"({"name": "somebody's"})";
  CHECK_THROWS_WITH(run.require_ours(), Catch::Contains("run.json") && Catch::Contains("--run-dir"));
}

TEST_CASE("a link or a device in the place of a run's own file or folder is refused by name") {
  const test::TemporaryFolder folder;
  const RunFolder run(folder / "run");
  run.make();
  const RunLock lock(run.path(), "process 1 on here");
  std::filesystem::create_directory(folder / "elsewhere");
  for (const char* name :
       {"log.txt", "epochs.csv", "config.yaml", "DONE", "best.safetensors", "checkpoints", "flight"}) {
    for (const char* target : {"elsewhere", "nothing"}) {
      std::filesystem::create_symlink(folder / target, run.file(name));
      CHECK_THROWS_WITH(run.require_ours(), Catch::Contains(std::string("/") + name + " is a symbolic link"));
      std::filesystem::remove(run.file(name));
    }
  }
  REQUIRE(mkfifo(run.file("epochs.csv").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(run.require_ours(), Catch::Contains("epochs.csv is a pipe"));
  std::filesystem::remove(run.file("epochs.csv"));
  std::filesystem::create_directory(run.checkpoints());
  std::filesystem::create_symlink("/dev/zero", run.checkpoints() + "/epoch-0001-step-00000001.safetensors");
  CHECK_THROWS_WITH(run.require_ours(), Catch::Contains("step-00000001.safetensors is a symbolic link"));
  std::filesystem::create_symlink(folder / "elsewhere", folder / "run2");  // the folder itself may be reached by one
  CHECK_NOTHROW(RunFolder(folder / "run2").require_ours());
}

TEST_CASE("a run folder's name is made plain, so that another can stand beside it") {
  const std::string here = std::filesystem::current_path().string();
  CHECK(RunFolder("proj/").path() == "proj");
  CHECK(RunFolder("a/../proj//").path() == "proj");
  CHECK(RunFolder(".").path() == here);
  CHECK(RunFolder("./").path() == here);
  CHECK(RunFolder("..").path() == std::filesystem::path(here).parent_path().string());
  CHECK(RunFolder("/data/runs/chexnet").path() == "/data/runs/chexnet");
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "run");
  CHECK(RunFolder(folder / "run/").move_aside() == folder / "run.1");
}

TEST_CASE(
    "a folder that was moved, removed or replaced while it is locked does not stand, and is never written by name") {
  const test::TemporaryFolder folder;
  const std::string run = folder / "run";
  std::filesystem::create_directory(run);
  RunLock lock(run, "process 1 on here");
  RunLog log(run, kFigures, 0, 0, lock.files(), true);
  CHECK((lock.stands() && log.stands()));
  SECTION("moved") {
    std::filesystem::rename(run, folder / "moved");
    CHECK_FALSE(lock.stands());
    CHECK_THAT(lock.what_happened(), Catch::Contains("was moved to " + folder.path() + "/moved"));
    std::filesystem::create_directory(run);  // and another job's begins
    const RunLock second(run, "process 2 on here");
    CHECK(second.held());
    write_run_json(run + "/run.json", {}, lock.files());
    CHECK(std::filesystem::exists(folder / "moved/run.json"));
    CHECK_FALSE(std::filesystem::exists(run + "/run.json"));
  }
  SECTION("replaced by a link") {
    std::filesystem::rename(run, folder / "moved");
    std::filesystem::create_directory(folder / "elsewhere");
    std::filesystem::create_symlink(folder / "elsewhere", run);
    CHECK_FALSE(lock.stands());
    write_run_json(run + "/run.json", {}, lock.files());
    CHECK(std::filesystem::is_empty(folder / "elsewhere"));
  }
  SECTION("removed") {
    std::filesystem::remove_all(run);
    CHECK_FALSE(lock.stands());
    CHECK_THAT(lock.what_happened(), Catch::StartsWith("was removed"));
    CHECK_THROWS(write_run_json(run + "/run.json", {}, lock.files()));
    CHECK_FALSE(std::filesystem::exists(run));
    log.step({.step = 1, .loss = 0.7, .learning_rate = 0.01});
    log.copy_to(folder.path());  // rows of files that were removed are copied, too
    CHECK_THAT(read_text(folder / "epochs.csv"), Catch::Contains("train_loss"));
    CHECK_THAT(read_text(folder / "metrics.jsonl"), Catch::Contains("\"step\":1"));
    const std::filesystem::directory_iterator events(folder / "tensorboard");
    CHECK_THAT(read_text(events->path()), Catch::Contains("step/loss"));
  }
  SECTION("its lock alone was replaced") {
    std::filesystem::remove(run + "/.lock");
    std::ofstream(run + "/.lock") << "x";
    CHECK_FALSE(lock.stands());
  }
  SECTION("its rows alone were removed") {
    std::filesystem::remove(run + "/epochs.csv");
    CHECK(lock.stands());
    CHECK_FALSE(log.stands());
  }
}

TEST_CASE("a run folder that cannot be made or written is refused with what forbids it") {
  const test::TemporaryFolder folder;
  CHECK_NOTHROW(RunFolder(folder.path()).require_writable());
  CHECK_NOTHROW(RunFolder(folder / "runs/new").require_writable());
  CHECK_FALSE(std::filesystem::exists(folder / "runs"));
  std::ofstream(folder / "file") << "x";
  CHECK_THROWS_WITH(RunFolder(folder / "file/runs/new").require_writable(),
                    Catch::Contains("cannot be written: '" + folder.path() + "/file' is no folder; choose another"));
  std::filesystem::create_directory(folder / "closed");
  REQUIRE(chmod((folder / "closed").c_str(), 0500) == 0);
  if (geteuid() == 0) return;  // who may write everywhere
  CHECK_THROWS_WITH(RunFolder(folder / "closed/new").require_writable(),
                    Catch::Contains("may not write in '" + folder.path() + "/closed', which belongs to "));
}

TEST_CASE("nobody else can open the lock of a run, and so hold it") {
  const test::TemporaryFolder folder;
  std::ofstream(folder / ".lock") << "";
  REQUIRE(chmod((folder / ".lock").c_str(), 0640) == 0);
  const RunLock lock(folder.path(), "process 1 on here");
  struct stat status {};
  REQUIRE(stat((folder / ".lock").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("TensorBoard's file is this program's own, and a flush writes what waits") {
  const test::TemporaryFolder folder;
  make_folders(folder / "tensorboard");
  const std::string foreign = folder / "tensorboard/events.out.tfevents.9999999999.other";  // the last by name
  write_file_atomically(foreign, "of another program");
  const auto sizes = [&] {  // of this program's files there
    std::vector<uintmax_t> bytes;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "tensorboard"))
      if (entry.path() != foreign) bytes.push_back(entry.file_size());
    return bytes;
  };
  {
    RunLog log(folder.path(), kFigures, 0, 0, real_file_system(), true);
    CHECK(log.begins_tensorboard());
    CHECK(log.flush().empty());
    const std::vector<uintmax_t> before = sizes();
    REQUIRE(before.size() == 1);
    log.step({.step = 1, .loss = 0.7, .learning_rate = 0.01});
    log.step({.step = 2, .loss = 0.6, .learning_rate = 0.01});
    CHECK(log.flush().empty());  // before a checkpoint: a kill right after it loses neither
    CHECK(sizes().front() > before.front());
  }
  const std::vector<uintmax_t> whole = sizes();
  {
    RunLog log(folder.path(), kFigures, 0, 1, real_file_system(), true);
    CHECK_FALSE(log.begins_tensorboard());
    CHECK(log.flush().empty());
  }
  CHECK(sizes().size() == 1);
  CHECK(sizes().front() < whole.front());  // without step 2
  CHECK(read_text(foreign) == "of another program");
}

TEST_CASE("a rank that took no step of the epoch in this start has no step times") {
  const test::TemporaryFolder folder;
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  {
    RunLog log(folder.path(), kFigures, 0, 0);
    log.ranks({{.epoch = 1, .step_ms_median = kNone, .step_ms_p95 = kNone}});
  }
  CHECK(read_text(folder / "ranks.csv").ends_with(",,\n"));
}

TEST_CASE("lines that find no room wait and are written before the next ones") {
  const test::TemporaryFolder folder;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  {
    RunLog log(folder.path(), kFigures, 0, 0);
    log.step({.step = 1, .loss = 0.7, .learning_rate = 0.01});
    CHECK(log.flush().empty());
    const rlimit little{static_cast<rlim_t>(std::filesystem::file_size(folder / "metrics.jsonl") + 20),
                        before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &little) == 0);
    log.step({.step = 2, .loss = 0.6, .learning_rate = 0.01});  // incomplete: 20 bytes of it fit
    log.step({.step = 3, .loss = 0.5, .learning_rate = 0.01});
    CHECK_THAT(log.flush(), Catch::Contains("metrics.jsonl"));
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    log.step({.step = 4, .loss = 0.4, .learning_rate = 0.01});
    CHECK(log.flush().empty());
  }
  signal(SIGXFSZ, ignored);
  const auto lines = split_text(read_text(folder / "metrics.jsonl"), '\n');
  REQUIRE(lines.size() == 5);  // four and the empty end
  for (size_t i = 0; i < 4; ++i) CHECK(nlohmann::json::parse(lines[i])["step"] == i + 1);
}

TEST_CASE("a run folder is one job's; who ended without a word is named") {
  const test::TemporaryFolder folder;
  {
    const RunLock lock(folder.path(), "process 1 on here");
    CHECK(lock.held());
    CHECK(lock.left_by().empty());
    int waits = 0;
    const auto two = [&](double) { return ++waits <= 2; };
    CHECK_THROWS_WITH(RunLock(folder.path(), "process 2 on here", two),
                      Catch::Contains("process 1 on here") && Catch::Contains("--run-dir"));
    CHECK(waits == 3);
    CHECK_THROWS_AS(RunLock(folder.path(), "process 2 on here", two), ConfigError);
    CHECK(RunLock::wait_a_little(0));
    CHECK(RunLock::wait_a_little(4.9));
    CHECK_FALSE(RunLock::wait_a_little(5.1));
  }
  CHECK(RunLock(folder.path(), "process 3 on here").left_by().empty());
  std::ofstream(folder / ".lock") << "process 4 on there\n";
  CHECK(RunLock(folder.path(), "process 5 on here").left_by() == "process 4 on there");
  CHECK_THROWS_AS(RunLock(folder / "absent", "process 6 on here"), MissingError);
}

TEST_CASE("the lock of a prediction's folder says so, and marks no run") {
  const test::TemporaryFolder folder;
  const auto at_once = [](double) { return false; };
  {
    const RunLock lock(folder.path(), RunLock::this_process(), at_once, RunLock::kPrediction);
    CHECK_THROWS_WITH(RunLock(folder.path(), "process 2 on here", at_once, RunLock::kPrediction),
                      Catch::Contains("is predicting into") &&
                          Catch::Contains("process " + std::to_string(getpid()) + " on ") &&
                          Catch::Contains("--output"));
  }
  const std::string text = read_text(folder / ".lock");
  CHECK(RunLock::is_mark(text, RunLock::kPrediction));
  CHECK_FALSE(RunLock::is_mark(text));
}

TEST_CASE("a lock that was waited for while its folder was moved aside is that of the new folder") {
  const test::TemporaryFolder folder;
  const std::string run = folder / "run";
  std::filesystem::create_directory(run);
  auto first = std::make_unique<RunLock>(run, "process 1 on here");
  int waits = 0;
  const RunLock second(run, "process 2 on here", [&](double) {
    if (++waits == 3) {  // it has seen the old folder's lock twice
      std::filesystem::rename(run, folder / "run.1");
      std::filesystem::create_directory(run);
      first.reset();
    }
    return waits < 10;
  });
  CHECK(waits == 3);
  REQUIRE(second.held());
  CHECK(second.stands());
  CHECK_THAT(read_text(run + "/.lock"), Catch::Contains("process 2"));
}
