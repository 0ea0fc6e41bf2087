#include "dtrain/device/gpu_module.hpp"

#include <ATen/Context.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "dtrain/base/error.hpp"
#include "dtrain/device/gpu_facts.hpp"
#include "support/catch.hpp"

using namespace dtrain;

enum Outcome { kTrue, kFalse, kNoModule };

// In a process of its own, because LibTorch looks for its CUDA part once in a process.
static int in_child(const std::function<bool()>& holds) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      _exit(holds() ? kTrue : kFalse);
    } catch (const MissingError&) {
      _exit(kNoModule);
    } catch (...) {
      _exit(kFalse);
    }
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kFalse;
}

static void check_in_child(const std::function<bool()>& holds) {
  const int outcome = in_child(holds);
  if (outcome == kNoModule) return test::skip("this build has no GPU module, or this machine lacks a library of CUDA");
  CHECK(outcome == kTrue);
}

TEST_CASE("the GPU module is loaded on a machine without a GPU too, and brings cuDNN and cuBLAS") {
  check_in_child([] {
    load_gpu_module();
    const GpuFacts facts = gpu_facts(0);
    return facts.at("cudnn").starts_with("9.") && facts.count("cublas") == 1;
  });
}

TEST_CASE("a program that has asked LibTorch for CUDA before it loads the GPU module is wrong, and told so") {
  check_in_child([] {
    at::globalContext().hasCUDA();
    try {
      load_gpu_module();
    } catch (const InternalError&) {
      return true;
    }
    return false;
  });
}
