// For files of test programs that see LibTorch, which has a macro CHECK too: Catch2's comes last.
#pragma once
#include "code_torch.hpp"
//
#include "support/catch.hpp"
