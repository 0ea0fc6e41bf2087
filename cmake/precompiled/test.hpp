// For test programs.
#pragma once
#include "code.hpp"
#include "support/catch.hpp"
