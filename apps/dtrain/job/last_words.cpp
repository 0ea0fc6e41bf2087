// Messages for failures that nothing can catch: memory that runs out while libraries initialise before main, on a
// library's thread or in a destructor, a GPU that has failed, and a working directory that does not exist.
#include <c10/util/Exception.h>
#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include "dtrain/base/error.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/device/gpu_errors.hpp"
#include "job/failure.hpp"
#include "job/kept_memory.hpp"

namespace dtrain {

static bool memory_ended() {
  const std::exception_ptr failure = std::current_exception();
  if (!failure) return false;
  try {
    std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::system_error& error) {
    return tells_of_memory(error);
  } catch (const c10::OutOfMemoryError&) {
    return true;
  } catch (const c10::Error& error) {
    return tells_of_gpu_memory(error.what_without_backtrace());
  } catch (...) {
    return false;
  }
}

// Once a kernel has failed every call of CUDA does, those that LibTorch makes in destructors too. What CUDA says; "" if
// it is something else.
static std::string_view gpu_ended(const std::exception_ptr& failure) {
  if (!failure) return "";
  try {
    std::rethrow_exception(failure);
  } catch (const c10::Error& error) {
    const std::string_view words = error.what_without_backtrace();  // lives as long as `failure`
    return !tells_of_gpu(words) ? "" : words.substr(0, words.find('\n'));
  } catch (...) {
    return "";
  }
}

// Nothing here allocates memory.
static void tell_stderr(std::string_view line) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

static void tell_last_words() {
  if (!memory_ended()) {
    const std::exception_ptr failure = std::current_exception();
    const std::string_view words = gpu_ended(failure);
    if (words.empty()) __gnu_cxx::__verbose_terminate_handler();  // a crash, with its core file
    char host[64] = "";
    ::gethostname(host, sizeof host - 1);
    char line[512];
    const int size =
        std::snprintf(line, sizeof line, "dtrain: error 69: a GPU of %s failed: %.*s; see nvidia-smi and dmesg there\n",
                      host, static_cast<int>(std::min<size_t>(words.size(), 300)), words.data());
    remove_bar();
    tell_stderr({line, static_cast<size_t>(size)});
    _exit(exit_code::kPeerFailed);
  }
  constexpr std::string_view kLine =
      "dtrain: error 71: out of memory; lower batch.per_rank, data.image.size or data.loader.prefetch, or raise the "
      "limit (ulimit -v)\n";
  remove_bar();
  tell_stderr(kLine);
  _exit(exit_code::kOutOfMemory);
}

static void before_the_libraries(int, char**, char**) {
  std::set_terminate(tell_last_words);
  lay_out_heap();
  // oneMKL, which comes with LibTorch, asks for the working directory while it initialises; without one it ends the
  // process as if a library were missing.
  char here[PATH_MAX];
  if (::getcwd(here, sizeof here) != nullptr || errno != ENOENT) return;
  tell_stderr("dtrain: error 66: the working directory was removed; cd to one that exists\n");
  _exit(exit_code::kMissingInput);
}

// The dynamic linker calls these before any library's own initialisation. Nothing else comes early enough: LibTorch
// registers thousands of operators then.
[[gnu::section(".preinit_array"), gnu::used]] static void (*const kBeforeTheLibraries)(int, char**,
                                                                                       char**) = before_the_libraries;

}  // namespace dtrain
