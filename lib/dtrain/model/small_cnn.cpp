#include <array>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/model/functions.hpp"
#include "dtrain/model/layers.hpp"
#include "dtrain/model/options.hpp"

namespace dtrain {

namespace {

constexpr std::array<int64_t, 5> kWidths{16, 32, 32, 64, 64};
// Names as in a Python Sequential that counts ReLU, pooling, dropout and flattening too.
constexpr std::array<const char*, 5> kConvNames{"0", "2", "5", "8", "11"};
constexpr std::array<const char*, 5> kPoolNames{"", "4", "7", "10", "13"};
constexpr int64_t kPooled = 16;  // four poolings halve each side
constexpr int64_t kHidden = 128;

class SmallCnn final : public NetworkOf<SmallCnn> {
 public:
  SmallCnn(const NetworkShape& shape, double dropout) {
    check(dropout >= 0 && dropout < 1, "model.dropout lies in [0, 1)");
    int64_t in = shape.channels;
    for (size_t i = 0; i < kWidths.size(); ++i) {
      const ConvShape conv{.in = in, .out = kWidths[i], .kernel = 3, .padding = 1, .bias = true};
      convs_.push_back(register_module(kConvNames[i], std::make_shared<Conv2d>(conv)));
      in = kWidths[i];
    }
    dropout_ = register_module("14", std::make_shared<KeyedDropout>(dropout));
    const int64_t features = in * (shape.height / kPooled) * (shape.width / kPooled);
    hidden_ = register_module("16", std::make_shared<Linear>(features, kHidden));
    out_ = register_module("18", std::make_shared<Linear>(kHidden, shape.outputs));
  }

  std::vector<std::string> head() const override { return {"18.weight", "18.bias"}; }

  void set_random_key(uint64_t seed, int64_t step, int64_t logical_rank) override {
    dropout_->set_key(seed, step, logical_rank);
  }

  template <class X>
  X run(X x) const {
    for (size_t i = 0; i < convs_.size(); ++i) {
      x = (*convs_[i])(x);
      // Before the ReLU: the same values and gradients, of a quarter as many.
      if (i > 0) x = max_pool(x, Window{2, 2, 0}, kPoolNames[i]);
      x = relu_in_place(x);
    }
    return (*out_)(relu_in_place((*hidden_)((*dropout_)(flat_features(x)))));
  }

 private:
  std::vector<std::shared_ptr<Conv2d>> convs_;
  std::shared_ptr<KeyedDropout> dropout_;
  std::shared_ptr<Linear> hidden_, out_;
};

}  // namespace

/// Five 3x3 convolutions (16, 32, 32, 64, 64) with ReLU, 2x2 max pooling after all but the first, dropout, a dense
/// layer of 128 sized for the picture, and the outputs.
extern const NetworkKind kSmallCnn = {
    .name = "small_cnn",
    .make = [](const ModelOptions& options, const NetworkShape& shape) -> std::shared_ptr<Network> {
      return std::make_shared<SmallCnn>(shape, options.dropout);
    },
    .least_side = kPooled,
    .proposed_for = NetworkKind::ProposedFor::few_or_small,
    .keys = {"dropout"},
    .random_by = [](const ModelOptions& options) { return options.dropout > 0 ? "dropout" : nullptr; },
    // Measured with one thread on an AVX-512 core, LibTorch 2.11: 1.85 times as fast as NCHW.
    .on_cpu = PixelLayout::channels_last,
};

}  // namespace dtrain
