#pragma once
#include "dtrain/base/error.hpp"

namespace dtrain {

/// Whether the picture is at fault, and not this machine or the program: damaged, absent, or not ours to read. A disk
/// that cannot be read (IoError), a lack of memory and a format whose reader is not installed here may be mended, and
/// then the same picture can be read.
bool is_of_the_file(const Error& error);
/// In a handler of an `error` that is not: throws it again, as ConfigError where the reader is not installed.
[[noreturn]] void throw_of_the_machine(const Error& error);

}  // namespace dtrain
