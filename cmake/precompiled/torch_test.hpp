// For files of test programs that see LibTorch, which has a macro CHECK too: Catch2's comes last.
#pragma once
#include "torch.hpp"
//
#include "support/catch.hpp"
