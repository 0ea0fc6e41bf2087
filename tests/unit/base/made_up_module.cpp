// A module for module_file_test.cpp: it sets an environment variable when any of its code runs.
#include <cstdlib>

#include "dtrain/base/module_stamp.hpp"

namespace {

[[gnu::section(".note.dtrain"), gnu::used]] alignas(4) constexpr auto kStamp = dtrain::module_stamp("made-up-1");
[[gnu::constructor]] void tell() { setenv("DTRAIN_MADE_UP_MODULE_RAN", "1", 1); }

}  // namespace

extern "C" const int dtrain_made_up_module = 42;
