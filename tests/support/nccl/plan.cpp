#include "support/nccl/plan.hpp"

#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace dtrain::test {

StandInPlan read_stand_in_plan() {
  StandInPlan plan;
  const char* text = std::getenv("DTRAIN_STAND_IN_NCCL");
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string word; std::getline(words, word, ',');) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "seed")
      plan.seed = std::stoull(value);
    else if (key == "pause_us")
      plan.pause_us = std::stoll(value);
    else if (key == "fault")
      plan.fault = value;
    else if (key == "rank")
      plan.rank = std::stoi(value);
    else if (key == "at")
      plan.at = std::stoll(value);
    else if (key == "deaths" && value == "show")
      plan.deaths_show = true;
    else if (key == "plant")
      plan.plant = value;
    else
      throw std::invalid_argument("DTRAIN_STAND_IN_NCCL: " + word);
  }
  return plan;
}

}  // namespace dtrain::test
