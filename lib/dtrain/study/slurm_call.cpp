#include "dtrain/study/slurm_call.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/study/child_job.hpp"

namespace dtrain {

std::string program_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split_text(path == nullptr ? "" : path, ':')) {
    const std::string program = folder + "/" + name;
    if (folder.starts_with('/') && ::access(program.c_str(), X_OK) == 0 && !std::filesystem::is_directory(program))
      return program;
  }
  return "";
}

ProgramEnd run_program(const std::vector<std::string>& words, const std::string& scratch) {
  constexpr auto kPoll = std::chrono::milliseconds(5);
  constexpr int64_t kMostOutput = int64_t{256} << 20;  // a queue of a million jobs
  std::filesystem::remove(scratch);                    // of a start that was killed
  ProgramEnd end;
  {
    ChildJob job(words, scratch);
    while (!job.ended()) std::this_thread::sleep_for(kPoll);
    end.code = *job.ended();
  }
  end.text = read_text(scratch, kMostOutput);
  std::filesystem::remove(scratch);
  return end;
}

std::string last_line(const std::string& text) {
  std::string last;
  for (const std::string& line : split_text(text, '\n'))
    if (!trimmed(line).empty()) last = std::string(trimmed(line));
  return last;
}

}  // namespace dtrain
