#include "dtrain/study/child_job.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/io/files/file.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

static int code_of(ChildJob& job) {
  while (true) {
    if (const auto code = job.ended()) return *code;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST_CASE("a job's output is appended to its log, and its code is a shell's") {
  const test::TemporaryFolder folder;
  const std::string log = folder / "log.txt";
  ChildJob first({"/bin/sh", "-c", "echo out; echo err >&2; read line || echo no input; exit 7"}, log);
  CHECK(code_of(first) == 7);
  CHECK(first.ended() == 7);
  ChildJob second({"/bin/sh", "-c", "echo more; kill -9 $$"}, log);
  CHECK(code_of(second) == 128 + SIGKILL);
  CHECK(read_text(log) == "out\nerr\nno input\nmore\n");
}

TEST_CASE("a job has a process group of its own, gets signals, and does not outlive its object") {
  const test::TemporaryFolder folder;
  const std::string log = folder / "log.txt";
  ChildJob job(
      {"/bin/sh", "-c", "trap 'exit 75' USR1; echo $$ $(cut -d' ' -f5 /proc/$$/stat); while :; do sleep 0.01; done"},
      log);
  while (!is_there(log) || read_text(log).find('\n') == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const std::string line = read_text(log);
  CHECK(std::stoi(line) == std::stoi(line.substr(line.find(' '))));
  CHECK_FALSE(job.ended());
  job.send(SIGUSR1);
  CHECK(code_of(job) == 75);

  pid_t pid = 0;
  {
    ChildJob left({"/bin/sh", "-c", "echo $$; exec sleep 60"}, folder / "left.txt");
    while (read_text(folder / "left.txt").find('\n') == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pid = std::stoi(read_text(folder / "left.txt"));
    CHECK(::kill(pid, 0) == 0);
  }
  CHECK(::kill(pid, 0) != 0);
}

TEST_CASE("a job runs on the cores that it is given, and this process stays where it is") {
  const test::TemporaryFolder folder;
  const std::vector<int> own = bound_cores();
  ChildJob job({"/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status"}, folder / "log.txt",
               {.cores = {own.back()}});
  CHECK(code_of(job) == 0);
  CHECK(read_text(folder / "log.txt") == "Cpus_allowed_list:\t" + std::to_string(own.back()) + "\n");
  CHECK(bound_cores() == own);
}

TEST_CASE("a job may be without variables of this process, and print into an open file") {
  const test::TemporaryFolder folder;
  ::setenv("DTRAIN_TEST_GONE_1", "1", 1);
  ::setenv("DTRAIN_TEST_KEPT", "2", 1);
  const int output = open_to_append(folder / "log.txt");
  ChildJob job({"/bin/sh", "-c", "echo $DTRAIN_TEST_GONE_1 $DTRAIN_TEST_KEPT"}, output,
               {.without = {"DTRAIN_TEST_GONE", "NO_SUCH"}});
  CHECK(code_of(job) == 0);
  CHECK(::close(output) == 0);
  CHECK(read_text(folder / "log.txt") == "2\n");
  for (const char* name : {"DTRAIN_TEST_GONE_1", "DTRAIN_TEST_KEPT"}) ::unsetenv(name);
}

TEST_CASE("an expendable job is ended at once whatever it does about signals, and is the first to go without memory") {
  const test::TemporaryFolder folder;
  const std::string log = folder / "log.txt";
  const auto began = std::chrono::steady_clock::now();
  {
    ChildJob job({"/bin/sh", "-c", "trap '' TERM; cat /proc/$$/oom_score_adj; while :; do sleep 0.01; done"}, log,
                 {.expendable = true});
    while (!is_there(log) || read_text(log).find('\n') == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(job.pid() > 0);
  }
  CHECK(read_text(log) == "1000\n");
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(8));  // TERM would have taken ten
}

TEST_CASE("a program that is not there is an error of the start") {
  const test::TemporaryFolder folder;
  CHECK_THROWS_AS(ChildJob({"/no/such/program"}, folder / "log.txt"), MissingError);
  CHECK_THROWS_AS(ChildJob({"/bin/true"}, folder / "none/log.txt"), MissingError);
}
