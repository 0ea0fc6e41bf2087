#pragma once
#include <string>

namespace dtrain {

/// Path of a file that belongs to the program, as a module that it loads: beside it, or in it or in lib/ of one of the
/// three folders above, as a build and a bundle have it. "" where there is none.
std::string file_of_program(const std::string& name);

}  // namespace dtrain
