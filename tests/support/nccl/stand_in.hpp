#pragma once

/// Names the tests' NCCL. A program that calls this cannot run on another libnccl.so.2 by mistake.
extern "C" const char* dtrain_stand_in_nccl();
