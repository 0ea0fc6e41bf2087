#include "dtrain/checkpoint/state.hpp"

#include <array>
#include <map>

#include "dtrain/checkpoint/weights_origin.hpp"
#include "input.hpp"

using namespace dtrain;

// The metadata that a resume and eval act on: 's' and the state of a checkpoint, 'f' and what eval has fitted, or 'w'
// and a line for each value of best.safetensors. A state that is accepted must be written again to the same bytes; its
// header has a target of its own.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(fuzz::text_of(data + 1, size - 1));
  return fuzz::read_or_tell([&] {  // a field too many is that of a newer program, which no damaged file is
    if (data[0] == 's') {
      const TrainingState state = training_state_from_json(text, "fuzz");
      const std::string again = to_json(state);
      check(to_json(training_state_from_json(again, "fuzz")) == again, "a state comes back as it was written");
      check(state.step + 1 > state.epoch && state.cursor >= 0 && state.optimizer_updates <= state.step,
            "the counts of a state fit each other");
      return;
    }
    if (data[0] == 'f') {
      const Fitted fitted = fitted_from_json(text, 2, "fuzz");
      check(fitted_from_json(fitted_json(fitted), 2, "fuzz") == fitted, "what was fitted comes back as it was written");
      return;
    }
    std::map<std::string, std::string> metadata = {{"format", data[0] == 'w' ? "dtrain-weights-1" : "another"}};
    size_t begin = 0;
    for (const char* key : {"logical_ranks", "epoch", "classes", "split_sha256", "trained_on"}) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      metadata[key] = text.substr(begin, end - begin);
      begin = std::min(end + 1, text.size());
    }
    const WeightsOrigin origin = weights_origin(metadata, "fuzz");
    check(origin.logical_ranks >= 0 && origin.trained_on.size() % 12 == 0, "an origin is one that a run can have");
  });
}
