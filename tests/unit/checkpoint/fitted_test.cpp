#include "dtrain/checkpoint/fitted.hpp"

#include <array>
#include <cstring>
#include <filesystem>
#include <span>

#include "dtrain/base/error.hpp"
#include "dtrain/checkpoint/weights_origin.hpp"
#include "dtrain/io/files/file.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

namespace {

const std::array<float, 3> kWeights = {1, -2, 0.5F};

void write_weights(const std::string& path, const std::string& format, const std::string& epoch) {
  write_safetensors(path, {{"fc.weight", "F32", {3}, std::as_bytes(std::span(kWeights))}},
                    {{"format", format}, {"classes", R"(["a","b"])"}, {"epoch", epoch}});
}

const Fitted kBoth{1.5, "valid", {0.25, std::nullopt}, "valid:youden"};

Fitted read_fitted(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::read(path, true);
  return weights_origin(file.metadata(), path).fitted;
}

}  // namespace

TEST_CASE("what was fitted is read as it was written") {
  for (const Fitted& fitted : {kBoth, Fitted{0.01, "test", {}, ""}, Fitted{{}, "", {0.0, 1.0}, "train:youden"}})
    CHECK((fitted_from_json(fitted_json(fitted), 2, "f") == fitted));
  CHECK(fitted_json(kBoth) ==
        R"({"temperature":1.5,"temperature_from":"valid","thresholds":[0.25,null],"thresholds_from":"valid:youden"})");
}

TEST_CASE("what eval does not write is not taken for something fitted") {
  for (const char* wrong :
       {"", "[]", "1", R"({"temperature":1})", R"({"temperature":0,"temperature_from":"valid"})",
        R"({"temperature":"1","temperature_from":"valid"})", R"({"temperature":101,"temperature_from":"valid"})",
        R"({"temperature_from":"valid"})", R"({"thresholds":[0.5],"thresholds_from":"valid:youden"})",
        R"({"thresholds":[0.5,1.5],"thresholds_from":"valid:youden"})", R"({"thresholds":[0.5,0.5]})",
        R"({"thresholds":{},"thresholds_from":"a"})", R"({"temperature":1,"temperature_from":"a\u001b"})",
        R"({"temperature":1,"temperature_from":"valid","more":1})"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(fitted_from_json(wrong, 2, "f"), Catch::StartsWith("f: 'fitted'"));
  }
}

TEST_CASE("what was fitted is kept in the weights file, which stays what it was otherwise") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "best.safetensors";
  write_weights(path, "dtrain-weights-1", "3");
  const std::vector<std::byte> before = read_file(path);
  write_fitted(path, SafetensorsFile::read(path), kBoth);
  const SafetensorsFile file = SafetensorsFile::read(path, true);
  CHECK((read_fitted(path) == kBoth));
  CHECK(file.metadata().at("epoch") == "3");
  REQUIRE(file.entries().size() == 1);
  CHECK(std::memcmp(file.bytes(file.entries()[0]).data(), kWeights.data(), sizeof kWeights) == 0);
  const Fitted other{2.0, "test", {}, ""};
  write_fitted(path, file, other);
  CHECK((read_fitted(path) == other));
  write_fitted(path, file, {});
  CHECK(read_file(path) == before);
}

TEST_CASE("a weights file keeps its mode; links and read-only files are left alone") {
  using std::filesystem::perms;
  const test::TemporaryFolder folder;
  const std::string path = folder / "best.safetensors";
  const std::string link = folder / "link.safetensors";
  write_weights(path, "dtrain-weights-1", "3");
  std::filesystem::create_symlink(path, link);
  CHECK_THROWS_WITH(write_fitted(link, SafetensorsFile::read(link), kBoth),
                    Catch::EndsWith("the file that it leads to"));
  CHECK(std::filesystem::is_symlink(link));
  std::filesystem::permissions(path, perms{0444});
  CHECK_THROWS_AS(write_fitted(path, SafetensorsFile::read(path), kBoth), PermissionError);
  CHECK(read_fitted(path).empty());
  std::filesystem::permissions(path, perms{0664});
  write_fitted(path, SafetensorsFile::read(path), kBoth);
  CHECK((read_fitted(path) == kBoth));
  CHECK(std::filesystem::status(path).permissions() == perms{0664});
}

TEST_CASE("weights that a run has replaced meanwhile, and files that are not a run's, are left alone") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "best.safetensors";
  write_weights(path, "dtrain-weights-1", "3");
  const SafetensorsFile evaluated = SafetensorsFile::read(path);
  write_weights(path, "dtrain-weights-1", "4");
  CHECK_THROWS_WITH(write_fitted(path, evaluated, kBoth), Catch::Contains("was replaced by other weights"));
  CHECK(read_fitted(path).empty());
  write_weights(path, "pt", "4");
  CHECK_THROWS_AS(write_fitted(path, SafetensorsFile::read(path), kBoth), ConfigError);
}
