#include "dtrain/config/config.hpp"

#include "input.hpp"

using namespace dtrain;

// A whole configuration. What is accepted is printed as YAML that loads again to the same experiment.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::InputFile file("fuzz.yaml");
  const auto load = [](std::string_view text) {
    file.write(text);
    return load_config({{file.path()}, false, {}});
  };
  return fuzz::read_or_tell([&] {
    const Config config = load(fuzz::text_of(data, size));
    for (const bool minimal : {false, true}) {
      Config again;
      try {
        again = load(config_yaml(config, minimal, true));
      } catch (const Error& error) {
        throw InternalError(std::string("a printed configuration loads again: ") + error.what());
      }
      check(config_yaml(again, false, false) == config_yaml(config, false, false),
            "a configuration comes back as it was printed");
    }
  });
}
