#include "dtrain/train/mirrored_views.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("masks are predicted from all four mirrored views, classes from the picture and its mirror image alone") {
  CHECK(mirrored_views(Task::segmentation) == std::vector<std::vector<int64_t>>{{}, {3}, {2}, {2, 3}});
  CHECK(mirrored_views(Task::multilabel) == std::vector<std::vector<int64_t>>{{}, {3}});
  CHECK(mirrored_views(Task::multiclass) == mirrored_views(Task::multilabel));
}

TEST_CASE("what is said of a view is mirrored back where it lies over the picture, and averaged") {
  const at::Tensor images = at::arange(2 * 3 * 4 * 5, at::kFloat).view({2, 3, 4, 5});
  int calls = 0;
  // Of each pixel its value, from the left half of what is seen alone; of each picture its first pixel.
  const SayOfPictures say = [&](const at::Tensor& seen) -> std::vector<at::Tensor> {
    ++calls;
    const at::Tensor left = (at::arange(5) < 2).to(at::kFloat);
    return {seen * left, seen.select(3, 0).select(2, 0).select(1, 0).unsqueeze(1)};
  };
  const auto both = mean_over_views(images, mirrored_views(Task::multiclass), say);
  CHECK(calls == 2);
  const at::Tensor sides = at::tensor({0.5F, 0.5F, 0.0F, 0.5F, 0.5F});
  CHECK(at::equal(both.at(0), images * sides));
  CHECK(at::equal(both.at(1), at::tensor({2.0F, 62.0F}).view({2, 1})));  // of 0 and 4, of 60 and 64
  const auto four = mean_over_views(images, mirrored_views(Task::segmentation), say);
  CHECK(calls == 6);
  CHECK(at::equal(four.at(0), images * sides));
  CHECK(at::equal(four.at(1), at::tensor({9.5F, 69.5F}).view({2, 1})));  // the corners 0, 4, 15, 19
}

TEST_CASE("one view is what is said, bit for bit, and mirrored ones are laid out as the pictures are") {
  const at::Tensor images = at::rand({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto same =
      mean_over_views(images, {{}}, [](const at::Tensor& seen) -> std::vector<at::Tensor> { return {seen / 3}; });
  CHECK(at::equal(same.at(0), images / 3));
  mean_over_views(images, mirrored_views(Task::segmentation), [](const at::Tensor& seen) -> std::vector<at::Tensor> {
    CHECK(seen.is_contiguous(at::MemoryFormat::ChannelsLast));
    return {seen};
  });
}
