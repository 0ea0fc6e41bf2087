#include "dtrain/model/weights.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;
using test::make;

namespace {

// On its smallest picture; drawing weights takes longer than all else.
std::shared_ptr<Network> make_unfilled(const NetworkKind* kind) {
  ModelOptions options;
  options.kind = kind;
  return kind->make(options, {.channels = kind->image_channels, .height = kind->least_side, .width = kind->least_side});
}

constexpr NetworkShape kSmall{.channels = 3, .height = 32, .width = 32, .outputs = 4};

// Name and tensor of everything in the network, after `change` (which may rename, replace, drop or add).
using Contents = std::vector<std::pair<std::string, at::Tensor>>;

Contents contents_of(const Network& network) {
  Contents all;
  for (const auto& [name, tensor] : network.named_parameters()) all.emplace_back(name, tensor.detach().clone());
  for (const auto& [name, tensor] : network.named_buffers()) all.emplace_back(name, tensor.detach().clone());
  return all;
}

std::string dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return "F64";
    case at::kHalf:
      return "F16";
    case at::kBFloat16:
      return "BF16";
    case at::kLong:
      return "I64";
    default:
      return "F32";
  }
}

std::string write(const test::TemporaryFolder& folder, const Contents& contents) {
  const std::string path = (folder.path() / "start.safetensors").string();
  std::vector<TensorBytes> tensors;
  for (const auto& [name, tensor] : contents)
    tensors.push_back({name,
                       dtype_of(tensor),
                       tensor.sizes().vec(),
                       {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}});
  write_safetensors(path, tensors, {});
  return path;
}

at::Tensor& find(Contents& contents, const std::string& name) {
  for (auto& [key, tensor] : contents)
    if (key == name) return tensor;
  throw std::logic_error("no tensor " + name);
}

at::Tensor find(const Network& network, const std::string& name) {
  Contents contents = contents_of(network);
  return find(contents, name);
}

void check_equal(const Network& network, const Contents& expected) {
  for (const auto& [name, tensor] : contents_of(network)) {
    INFO(name);
    Contents copy = expected;
    CHECK(test::same_bits(tensor, find(copy, name)));
  }
}

}  // namespace

TEST_CASE("weights that fit are loaded whole, statistics and counters too") {
  const test::TemporaryFolder folder;
  const auto source = make(network_kind("small_cnn"), kSmall, 1), target = make(network_kind("small_cnn"), kSmall, 2);
  const std::string line = load_weights(*target, write(folder, contents_of(*source)));
  CHECK(line == "weights start.safetensors: 14 of 14 tensors loaded");
  check_equal(*target, contents_of(*source));

  const NetworkShape shape = test::reference_shape(network_kind("unet"));
  const auto trained = make(network_kind("unet"), shape, 1), fresh = make(network_kind("unet"), shape, 2);
  trained->forward(test::keyed_normal({2, 1, 64, 64}, 1));
  CHECK(load_weights(*fresh, write(folder, contents_of(*trained))) ==
        "weights start.safetensors: 118 of 118 tensors loaded");
  check_equal(*fresh, contents_of(*trained));
}

TEST_CASE("a head of another size is left at its start, and the report says so") {
  const test::TemporaryFolder folder;
  NetworkShape many = kSmall;
  many.outputs = 1000;
  const auto source = make(network_kind("small_cnn"), many, 1), target = make(network_kind("small_cnn"), kSmall, 2);
  const at::Tensor head = find(*target, "18.weight");
  CHECK(load_weights(*target, write(folder, contents_of(*source))) ==
        "weights start.safetensors: 12 of 14 tensors loaded; left at random: 18.weight, 18.bias (1000 → 4)");
  CHECK(test::same_bits(find(*target, "18.weight"), head));
  CHECK(test::same_bits(find(*target, "16.weight"), find(*source, "16.weight")));
}

TEST_CASE("any other disagreement is an error that lists the tensors and changes nothing") {
  const test::TemporaryFolder folder;
  const auto source = make(network_kind("small_cnn"), kSmall, 1), target = make(network_kind("small_cnn"), kSmall, 2);
  Contents file = contents_of(*source);
  const Contents before = contents_of(*target);
  std::string message;
  SECTION("missing") {
    std::erase_if(file, [](const auto& item) { return item.first == "5.bias"; });
    message = "missing: 5.bias [32]";
  }
  SECTION("unexpected") {
    file.emplace_back("extra.weight", at::zeros({3}));
    message = "unexpected: extra.weight [3]";
  }
  SECTION("of another shape") {
    find(file, "2.weight") = at::zeros({32, 16, 5, 5});
    message = "of another shape: 2.weight [32, 16, 5, 5], the network has [32, 16, 3, 3]";
  }
  SECTION("a head with other inputs") {
    find(file, "18.weight") = at::zeros({4, 64});
    message = "of another shape: 18.weight";
  }
  SECTION("of another type") {
    find(file, "2.weight") = at::zeros({32, 16, 3, 3}, at::kLong);
    message = "of type I64: 2.weight";
  }
  SECTION("without a head") {
    std::erase_if(file, [](const auto& item) { return item.first.starts_with("18."); });
    message = "in 2 tensors; save the network with its last layer:\n  missing: 18.weight";
  }
  SECTION("a part") {
    std::erase_if(file, [](const auto& item) { return item.first.starts_with("1"); });
    message = "the file holds only a part of this network, or one with fewer layers:\n  missing: 11.weight";
  }
  SECTION("more") {
    file.emplace_back("20.weight", at::zeros({3}));
    message = "the file holds more than this network, or one with more layers:\n  unexpected: 20.weight";
  }
  SECTION("another's names") {
    for (auto& [name, tensor] : file) name.insert(0, "net.");
    message = "give the file of this network under torchvision's names (scripts/convert_weights makes it):";
  }
  SECTION("not a number") {
    find(file, "11.bias")[3] = std::numeric_limits<float>::quiet_NaN();
    message = "'11.bias' holds NaN or Inf";
  }
  const std::string path = write(folder, file);
  CHECK_THROWS_AS(load_weights(*target, path), DataError);
  CHECK_THROWS_WITH(load_weights(*target, path), Catch::Contains(message) && Catch::Contains(path));
  check_equal(*target, before);
}

TEST_CASE("an encoder takes the weights of the network that it comes from, and its own back", "[long]") {
  const test::TemporaryFolder folder;
  const ModelOptions options = test::options_of(network_kind("unet"), network_kind("resnet18"));
  const NetworkShape shape{.channels = 3, .height = 32, .width = 32, .outputs = 2};
  const auto whole = make(options.encoder, kSmall, 1);
  const auto target = make_network(options, shape, 2);
  const Contents before = contents_of(*target);
  CHECK(load_weights(*target, write(folder, contents_of(*whole))) ==
        "weights start.safetensors: 120 of 182 tensors loaded, all of the encoder's; the others left at random");
  Contents source = contents_of(*whole), expected = before;
  for (auto& [name, tensor] : expected)
    if (name.starts_with("encoder.")) tensor = find(source, name.substr(8));
  check_equal(*target, expected);

  const auto again = make_network(options, shape, 3);
  CHECK(load_weights(*again, write(folder, expected)) == "weights start.safetensors: 182 of 182 tensors loaded");
  check_equal(*again, expected);

  Contents headless = contents_of(*whole);
  std::erase_if(headless, [](const auto& item) { return item.first.starts_with("fc."); });
  CHECK_NOTHROW(load_weights(*again, write(folder, headless)));
  NetworkShape grey = shape;
  grey.channels = 1;
  CHECK_THROWS_WITH(load_weights(*make_network(options, grey, 1), write(folder, headless)),
                    Catch::Contains("of another shape: encoder.conv1.weight [64, 3, 7, 7], the network has [64, 1,"));
  const auto deeper = make(network_kind("resnet34"), kSmall, 1);
  CHECK_THROWS_WITH(load_weights(*again, write(folder, contents_of(*deeper))),
                    Catch::Contains("have the names of resnet34's, set model.encoder=resnet34 or"));
}

TEST_CASE("layers of deep supervision may be absent from a file, or be there in vain, and the report says so") {
  const test::TemporaryFolder folder;
  const NetworkKind* kind = nullptr;
  for (const NetworkKind* one : networks())
    if (one->lower_logits != nullptr) kind = one;
  REQUIRE(kind != nullptr);
  NetworkShape plain{.channels = kind->image_channels, .height = 64, .width = 64, .outputs = 2};
  NetworkShape deep = plain;
  deep.deep_supervision = true;
  const auto with = make(kind, deep, 1), without = make(kind, plain, 2);
  const std::string prefix = with->lower_head_prefix();
  REQUIRE(!prefix.empty());
  CHECK(without->lower_head_prefix() == prefix);
  const auto is_lower = [&](const std::string& name) { return name.starts_with(prefix); };
  const Contents of_plain = contents_of(*without), of_deep = contents_of(*with);
  REQUIRE(of_deep.size() > of_plain.size());

  const std::string added = std::to_string(of_deep.size() - of_plain.size()) + " tensors of deep supervision";
  CHECK_THAT(load_weights(*with, write(folder, of_plain)), Catch::Contains("left at random: " + added));
  for (const auto& [name, tensor] : contents_of(*with)) {
    const Contents& wanted = is_lower(name) ? of_deep : of_plain;
    const auto same = std::find_if(wanted.begin(), wanted.end(), [&](const auto& one) { return one.first == name; });
    CHECK(tensor.equal(same->second));
  }
  CHECK_THAT(load_weights(*without, write(folder, of_deep)), Catch::Contains("left out: " + added));
  for (const auto& [name, tensor] : of_deep)
    if (!is_lower(name)) CHECK(find(*without, name).equal(tensor));
}

TEST_CASE("weights of another network are refused with its name") {
  const test::TemporaryFolder folder;
  for (const NetworkKind* theirs : networks()) {
    Contents file;  // one number each: only the names matter
    for (const auto& [name, tensor] : contents_of(*make_unfilled(theirs)))
      if (!name.ends_with("num_batches_tracked")) file.emplace_back(name, at::zeros({1}));
    const std::string path = write(folder, file);
    for (const NetworkKind* ours : networks()) {
      INFO(theirs->name << " for " << ours->name);
      const auto hint =
          Catch::Contains("have the names of " + theirs->name + "'s, set model.name=" + theirs->name + " or");
      if (ours == theirs) {
        CHECK_THROWS_WITH(load_weights(*make_unfilled(ours), path), !hint);
      } else {
        CHECK_THROWS_WITH(load_weights(*make_unfilled(ours), path), hint);
      }
    }
  }
}

TEST_CASE("a weights file that is absent or no safetensors file is refused") {
  const test::TemporaryFolder folder;
  const auto network = make(network_kind("small_cnn"), kSmall, 1);
  CHECK_THROWS_AS(load_weights(*network, (folder.path() / "absent.safetensors").string()), MissingError);
  const std::string path = (folder.path() / "text.safetensors").string();
  std::ofstream(path) << "this is a text, not a model";
  CHECK_THROWS_AS(load_weights(*network, path), DataError);
}

TEST_CASE("half, bfloat16 and float64 files are converted") {
  const auto dtype = GENERATE(at::kHalf, at::kBFloat16, at::kDouble);
  const test::TemporaryFolder folder;
  const auto source = make(network_kind("small_cnn"), kSmall, 1), target = make(network_kind("small_cnn"), kSmall, 2);
  Contents file = contents_of(*source);
  for (auto& [name, tensor] : file) tensor = tensor.to(dtype);
  load_weights(*target, write(folder, file));
  Contents expected = file;
  for (auto& [name, tensor] : expected) tensor = tensor.to(at::kFloat);
  check_equal(*target, expected);
}

TEST_CASE("old DenseNet names and absent counters are understood") {
  const test::TemporaryFolder folder;
  const NetworkShape shape = test::reference_shape(network_kind("densenet121"));
  const auto source = make(network_kind("densenet121"), shape, 1), target = make(network_kind("densenet121"), shape, 2);
  Contents file = contents_of(*source);
  std::erase_if(file, [](const auto& item) { return item.first.ends_with("num_batches_tracked"); });
  size_t renamed = 0;
  for (auto& [name, tensor] : file)
    for (const std::string part : {"norm1", "norm2", "conv1", "conv2"})
      if (const size_t at = name.find("." + part + "."); name.find("denselayer") < at && at != std::string::npos) {
        name.replace(at + 1, 5, part.substr(0, 4) + "." + part.substr(4));
        ++renamed;
      }
  REQUIRE(renamed == 58 * 10);
  CHECK(load_weights(*target, write(folder, file)) ==
        "weights start.safetensors: 606 of 727 tensors loaded; num_batches_tracked absent, 121 counters left as they "
        "were");
  check_equal(*target, contents_of(*source));

  const std::string new_name = "features.denseblock1.denselayer1.norm1.weight";
  file.emplace_back(new_name, find(*source, new_name));
  CHECK_THROWS_WITH(load_weights(*target, write(folder, file)),
                    Catch::Contains("twice, under an old and a new name: features.denseblock1.denselayer1.norm"));
}

TEST_CASE("a first convolution for another number of channels is of another shape") {
  const test::TemporaryFolder folder;
  NetworkShape grey = kSmall;
  grey.channels = 1;
  const auto three = make(network_kind("small_cnn"), kSmall, 1), one = make(network_kind("small_cnn"), grey, 2);
  const std::string first = "of another shape: 0.weight ";
  CHECK_THROWS_WITH(load_weights(*one, write(folder, contents_of(*three))),
                    Catch::Contains(first + "[16, 3, 3, 3], the network has [16, 1, 3, 3]"));
  CHECK_THROWS_WITH(load_weights(*three, write(folder, contents_of(*one))),
                    Catch::Contains(first + "[16, 1, 3, 3], the network has [16, 3, 3, 3]"));
  CHECK_THROWS_AS(load_weights(*one, write(folder, contents_of(*three))), DataError);
}
