#pragma once
#include <string>
#include <vector>

namespace dtrain {

/// Numbers of the cores this process may run on, ascending; at least one.
std::vector<int> bound_cores();

/// The calling thread, and those that it starts from now on, run on these cores alone. False if the system refuses, as
/// where it has none of them; nothing has changed then.
bool run_on_cores(const std::vector<int>& cores);

/// "0-3,8": core numbers as ranges.
std::string core_ranges(const std::vector<int>& cores);
/// The inverse: the numbers in such a text, ascending.
std::vector<int> read_core_ranges(const std::string& text);

/// The vector extensions of this machine's processor as the kernel names them ("avx avx2 fma"), in order; "" where it
/// does not say. Libraries choose their code by these.
std::string vector_extensions();

/// This machine's host name.
std::string host_name();

}  // namespace dtrain
