#pragma once
#include <cstdint>

namespace dtrain::test {

/// A wait that has a limit: pause() is called between two looks. After two minutes it ends the process with a sentence.
class Patience {
 public:
  explicit Patience(const char* what) : what_(what) {}
  void pause();
  int64_t looks() const { return looks_; }

 private:
  const char* what_;
  int64_t looks_ = 0;
  double waited_s_ = 0;
};

}  // namespace dtrain::test
