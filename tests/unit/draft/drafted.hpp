#pragma once
// What a drafted configuration says, once it is read as any other.
#include <string>

#include "dtrain/config/config.hpp"
#include "dtrain/data/order/split.hpp"
#include "dtrain/draft/draft.hpp"
#include "unit/data/folder.hpp"

namespace dtrain::test {

inline Experiment loaded(const std::string& text) {
  return load_config({.files = {}, .environment = false, .overrides = {}, .stored = text, .stored_in = "the draft"})
      .experiment;
}

inline Dataset opened(const Experiment& e) { return open_dataset(e.data, e.task, e.seed); }

/// The text with one of its comments made a line: what a person would uncomment.
inline std::string uncommented(std::string text, const std::string& line) {
  const size_t at = text.find("# " + line);
  REQUIRE(at != std::string::npos);
  return text.erase(at, 2);
}

}  // namespace dtrain::test
