// scripts/convert_weights, if there is a Python with torch, torchvision and safetensors.
#include <fstream>
#include <iterator>

#include "dtrain/model/weights.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;

static std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("convert_weights turns a training script's file into one that loads whole") {
  if (!test::python()) return test::skip("no Python with torch, torchvision and safetensors (DTRAIN_PYTHON)");
  const auto name = GENERATE(network_kind("densenet121"), network_kind("small_cnn"));
  const std::string model = name->name;
  INFO(model);
  const test::TemporaryFolder folder;
  const std::string place = (folder.path() / model).string(), out = place + ".converted.safetensors";
  const std::string log = (folder.path() / "log").string();
  REQUIRE(test::run_python("tests/support/reference/reference_tensors.py",
                           "--pth --model " + model + " --out '" + folder.path().string() + "'"));
  const bool converted = test::run_python("scripts/convert_weights", "'" + place + ".pth' '" + out + "'", log);
  INFO(text_of_file(log));
  REQUIRE(converted);

  const auto direct = test::reference_network(name), through = test::reference_network(name);
  load_weights(*direct, place + ".weights.safetensors");
  load_weights(*through, out);
  const auto expected = direct->named_parameters(), found = through->named_parameters();
  for (size_t i = 0; i < expected.size(); ++i) CHECK(test::same_bits(found[i].tensor, expected[i].tensor));
  const auto expected_buffers = direct->named_buffers(), found_buffers = through->named_buffers();
  for (size_t i = 0; i < expected_buffers.size(); ++i)
    CHECK(test::same_bits(found_buffers[i].tensor, expected_buffers[i].tensor));
}

TEST_CASE("convert_weights refuses what it cannot read, in one line") {
  if (!test::python()) return test::skip("no Python with torch, torchvision and safetensors (DTRAIN_PYTHON)");
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "text.pth").string(), log = (folder.path() / "log").string();
  std::ofstream(path) << "no weights";
  CHECK_FALSE(test::run_python("scripts/convert_weights", "'" + path + "' '" + path + ".safetensors'", log));
  CHECK_THAT(text_of_file(log), Catch::StartsWith("convert_weights: " + path + " cannot be read as plain weights"));
  CHECK_FALSE(test::run_python("scripts/convert_weights", "'" + path + ".absent' out", log));
  CHECK_THAT(text_of_file(log), Catch::Contains("does not exist"));
}
