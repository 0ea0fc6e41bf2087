#include "job/failure.hpp"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>
#include <thread>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/device/gpu_errors.hpp"

namespace dtrain {

// oneDNN has chosen how to compute a layer, but cannot set it up: the type of its error is not public.
constexpr std::string_view kOneDnnOutOfMemory = "could not create a primitive";

bool tells_of_memory(const std::system_error& error) {
  return error.code() == std::errc::not_enough_memory || error.code() == std::errc::resource_unavailable_try_again;
}

static std::string first_line(const c10::Error& error) {
  const std::string whole = error.what_without_backtrace();
  return whole.substr(0, whole.find('\n'));
}

static Error out_of_memory(const std::string& sentence) { return Error(exit_code::kOutOfMemory, sentence); }

static Error out_of_gpu_memory(const c10::Error& error) {
  return out_of_memory("out of memory on the GPU; lower batch.per_rank or data.image.size (" + first_line(error) + ")");
}

// LibTorch has an error type only for the GPU allocator's lack of memory. For the host's allocator, CUDA's calls,
// cuBLAS and cuDNN it can only be recognised by the text.
static Error of_libtorch(const c10::Error& error) {
  const std::string line = first_line(error);
  const auto holds = [&](std::string_view words) { return line.find(words) != std::string::npos; };
  if (tells_of_gpu_memory(line)) return out_of_gpu_memory(error);
  if (holds("DefaultCPUAllocator: can't allocate memory"))
    return out_of_memory("out of memory in LibTorch; lower batch.per_rank or data.image.size (" + line + ")");
  if (tells_of_gpu(line)) return DeviceError("LibTorch: " + line);
  return InternalError("LibTorch: " + line);
}

static Error as_error(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return out_of_memory("out of memory; lower batch.per_rank, data.image.size or data.loader.prefetch");
  } catch (const c10::OutOfMemoryError& error) {
    return out_of_gpu_memory(error);
  } catch (const c10::Error& error) {
    return of_libtorch(error);
  } catch (const std::system_error& error) {
    if (!tells_of_memory(error)) return InternalError(error.what());
    return Error(exit_code::kOutOfMemory,
                 std::string("the system has no room for another thread (") + error.what() +
                     "); lower data.loader.threads, or raise the limit on memory or processes (ulimit -v, ulimit -u)");
  } catch (const std::exception& error) {
    if (std::string_view(error.what()) == kOneDnnOutOfMemory)
      return out_of_memory("out of memory in oneDNN; lower batch.per_rank or data.image.size");
    return InternalError(error.what());
  } catch (...) {
    return InternalError("an exception of unknown type");
  }
}

// What was thrown, as dtrain's last line tells it. `memory_advice`: of this job, or "".
static Error told_error(const std::exception_ptr& failure, const std::string& memory_advice) {
  const Error error = as_error(failure);
  const bool cured_by_batch = std::string_view(error.what()).find("; lower batch.per_rank") != std::string_view::npos;
  if (error.code() != exit_code::kOutOfMemory || !cured_by_batch || memory_advice.empty()) return error;
  return out_of_memory(error.what() + memory_advice);
}

// Prints the text, with its last line in colour.
static void print_error(const std::string& text) {
  const size_t last = text.rfind('\n') + 1;  // 0 if there is only one line
  remove_bar();
  std::fprintf(stderr, "%s%s\n", text.substr(0, last).c_str(),
               coloured(text.substr(last), kErrorColour, STDERR_FILENO).c_str());
  std::fflush(stderr);
}

// One error whose sentence ends in a list (its lines are indented), or several errors, one per line: the list comes
// first, so that dtrain's last line says what happened.
static std::string head_last(const std::string& sentence, const std::string& head) {
  const std::vector<std::string> lines = lines_of(sentence);
  const auto errors =
      std::count_if(lines.begin(), lines.end(), [](const std::string& line) { return !line.starts_with(' '); });
  if (errors > 1) return join(lines, "\n") + "\n" + head + std::to_string(errors) + " errors, listed above";
  const std::string& first = lines.front();
  if (lines.size() == 1) return head + first;
  return join({lines.begin() + 1, lines.end()}, "\n") + "\n" + head + first +
         (first.ends_with(':') ? " see above" : "; see above");
}

int end_in_failure(std::exception_ptr failure, Job& job) {
  const Error error = told_error(failure, job.memory_advice());
  job.note_failure(shown(error.what()));
  const bool may_meet = error.code() != exit_code::kOutOfMemory;  // MPI needs memory too
  if (may_meet && job.rank() != 0) job.meet_others();
  if (!job.may_tell_failure()) std::this_thread::sleep_for(std::chrono::seconds(10));  // ended by the one that reports
  const std::string rank = job.size() > 1 ? " [" + job.name() + "]" : "";
  const std::string head = "dtrain: error " + std::to_string(error.code()) + rank + ": ";
  print_error(head_last(error.what(), head));
  if (may_meet) job.meet_others();
  if (job.launched() && job.uses_mpi()) job.abort(error.code());
  return error.code();
}

static void write_line(const std::string& line, const char* colour) {
  const std::string whole = coloured(printable(line), colour, STDERR_FILENO) + "\n";
  remove_bar();
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, whole.data(), whole.size());
}

void tell_stall(const std::string& rank_name, const std::string& sentence) {
  write_line("dtrain: error " + std::to_string(exit_code::kStalled) +
                 (rank_name.empty() ? "" : " [" + rank_name + "]") + ": " + sentence,
             kErrorColour);
}

void warn_of_stall(const std::string& sentence) { write_line("warning: " + sentence, kWarningColour); }

}  // namespace dtrain
