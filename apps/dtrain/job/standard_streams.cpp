#include "job/standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "dtrain/base/error.hpp"

namespace dtrain {

void open_standard_streams() {
  for (int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(number, F_GETFD) < 0 && errno == EBADF) [[maybe_unused]]
      const int opened = ::open("/dev/null", O_RDONLY);  // takes the lowest free number, which is this one
}

void flush_output() {
  errno = 0;
  bool lost = std::ferror(stdout) != 0;  // an earlier write failed
  lost = std::fflush(stdout) != 0 || lost;
  int reason = errno;
  // A file server or a quota may refuse only when a descriptor is closed.
  if (const int copy = dup(STDOUT_FILENO); !lost && copy >= 0 && close(copy) != 0) {
    lost = true;
    reason = errno;
  }
  if (lost)
    throw IoError("standard output was not written completely" +
                  (reason == 0 ? std::string() : ": " + std::string(std::strerror(reason))) +
                  "; what is there is incomplete");
}

}  // namespace dtrain
