#include "dtrain/optim/groups.hpp"

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"
#include "support/text.hpp"

using namespace dtrain;
using test::holds;

namespace {

const std::vector<std::string> kNames = {"conv1.weight",          "bn1.weight", "bn1.bias", "layer1.0.conv1.weight",
                                         "layer2.0.conv1.weight", "fc.weight",  "fc.bias"};
const std::vector<int64_t> kDimensions = {4, 1, 1, 4, 4, 2, 1};

std::vector<ParameterRule> rules_of(const OptimizerOptions& options) {
  return parameter_rules(options, kNames, kDimensions);
}

std::string refusal_of(const std::vector<ParameterGroup>& groups) {
  OptimizerOptions options;
  options.groups = groups;
  try {
    rules_of(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a pattern describes the whole name; a star takes any characters, dots too") {
  for (const auto& [pattern, name] : {std::pair{"fc.bias", "fc.bias"},
                                      {"*", "fc.bias"},
                                      {"fc.*", "fc.bias"},
                                      {"*bias", "fc.bias"},
                                      {"layer?.*", "layer3.0.bn1.weight"},
                                      {"layer*conv*weight", "layer3.0.conv1.weight"},
                                      {"*a*ab", "aaab"},
                                      {"***", ""},
                                      {"a?c", "abc"}})
    CHECK(matches(pattern, name));
  for (const auto& [pattern, name] : {std::pair{"fc", "fc.bias"},
                                      {"fc.?", "fc.bias"},
                                      {"bias", "fc.bias"},
                                      {"", "a"},
                                      {"a?", "a"},
                                      {"*a*ab", "aaba"},
                                      {"layer[12].*", "layer1.0"}})
    CHECK_FALSE(matches(pattern, name));
}

TEST_CASE("the first group that matches counts, and what none matches has the options' own values") {
  OptimizerOptions options;
  options.weight_decay = 0.5;
  options.groups = {{.match = "*.bias", .rate = 2, .weight_decay = {}},
                    {.match = "fc.*", .weight_decay = 0.1},
                    {.match = "layer?.*", .rate = 0.1, .weight_decay = {}},
                    {.match = "bn1.*", .weight_decay = {}, .freeze = true}};
  CHECK(rules_of(options) ==
        std::vector<ParameterRule>{{1, 0.5}, {1, 0.5, true}, {2, 0.5}, {0.1, 0.5}, {0.1, 0.5}, {1, 0.1}, {2, 0.5}});
  options.decay_norms = false;  // whatever a group says
  CHECK(rules_of(options) ==
        std::vector<ParameterRule>{{1, 0.5}, {1, 0, true}, {2, 0}, {0.1, 0.5}, {0.1, 0.5}, {1, 0.1}, {2, 0}});
}

TEST_CASE("a group without a parameter is refused with names that are near, and so is a network that is all frozen") {
  CHECK(refusal_of({{.match = "laye2.*", .weight_decay = {}}}) ==
        "optimizer.groups: 'laye2.*' matches no parameter of this network, which has layer2.0.conv1.weight and 6 more");
  CHECK(holds(refusal_of({{.match = "features.*", .weight_decay = {}}}), "which has conv1.weight, bn1.weight, "));
  CHECK(holds(refusal_of({{.match = "fc.*", .weight_decay = {}}, {.match = "fc.bias", .weight_decay = {}}}),
              "every parameter that 'fc.bias' matches is in a group before it"));
  CHECK(refusal_of({{.match = "fc.bias", .weight_decay = {}}, {.match = "fc.*", .weight_decay = {}}}).empty());
  CHECK(holds(refusal_of({{.match = "*", .weight_decay = {}, .freeze = true}}), "nothing is left to train"));
}
