#include "support/rank_checks.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <stdexcept>
#include <string>

#include "dtrain/base/random.hpp"
#include "dtrain/dist/bucket_sum.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/reducer.hpp"

namespace dtrain::test {

static void expect(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error(sentence);
}

static bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && at::equal(a.cpu().contiguous().view(at::kInt), b.cpu().contiguous().view(at::kInt));
}

// Leaves for which any other order of additions gives other bits: 1e8, 1, −1e8 and small noise.
static at::Tensor adversarial(int64_t numel, int64_t leaf, int64_t step) {
  at::Tensor values = at::empty({numel}, at::kFloat);
  KeyedRandom random(99, Purpose::synthetic_data, static_cast<uint64_t>(step), static_cast<uint64_t>(leaf));
  auto* data = values.mutable_data_ptr<float>();
  for (int64_t i = 0; i < numel; ++i) {
    const float scale[] = {1e8F, 1.0F, -1e8F, 1e-3F};
    data[i] = scale[random.below(4)] * static_cast<float>(random.uniform(0.5, 1.5));
  }
  return values;
}

// The tree evaluated by one rank: recursion over values, independent of the code under test.
static at::Tensor tree_sum(const std::vector<at::Tensor>& leaves, int64_t begin, int64_t width) {
  if (begin >= static_cast<int64_t>(leaves.size())) return {};
  if (width == 1) return leaves[static_cast<size_t>(begin)];
  const at::Tensor left = tree_sum(leaves, begin, width / 2);
  const at::Tensor right = tree_sum(leaves, begin + width / 2, width / 2);
  if (!left.defined()) return right;
  return right.defined() ? left + right : left;
}

static at::Tensor tree_sum(const std::vector<at::Tensor>& leaves) {
  int64_t width = 1;
  while (width < static_cast<int64_t>(leaves.size())) width *= 2;
  return tree_sum(leaves, 0, width);
}

static std::vector<bool> some_present(int64_t v, int64_t round) {
  std::vector<bool> present(static_cast<size_t>(v), true);
  if (round > 0)
    for (int64_t i = 0; i < v; ++i)
      present[static_cast<size_t>(i)] =
          KeyedRandom(5, Purpose::split, static_cast<uint64_t>(round), static_cast<uint64_t>(i)).chance(0.6);
  present[static_cast<size_t>(round % v)] = true;
  return present;
}

void check_collectives(Communicator& comm) {
  const int n = comm.size();
  for (int root = 0; root < n; ++root) {
    at::Tensor values = comm.rank() == root ? at::arange(5, at::kLong) + root : at::zeros({5}, at::kLong);
    broadcast(comm, values, root);
    expect(at::equal(values, at::arange(5, at::kLong) + root), "a broadcast reaches every rank");
    expect(broadcast_text(comm, comm.rank() == root ? "text " + std::to_string(root) : "", root) ==
               "text " + std::to_string(root),
           "a text is broadcast");
  }
  const auto all = all_gather(comm, at::full({comm.rank(), 2}, comm.rank(), at::kFloat));
  for (int r = 0; r < n; ++r) {
    expect(all[static_cast<size_t>(r)].size(0) == r, "a gather keeps each rank's length, zero too");
    expect(r == 0 || all[static_cast<size_t>(r)].eq(r).all().item<bool>(), "a gather is in order of rank");
  }
  const auto texts = all_gather_text(comm, std::string(static_cast<size_t>(comm.rank()), 'x'));
  for (int r = 0; r < n; ++r)
    expect(texts[static_cast<size_t>(r)].size() == static_cast<size_t>(r), "texts are gathered in order");
  for (int64_t v = n; v < n + 4; ++v) {
    const Range mine = carried(comm, v);
    const at::Tensor own = at::arange(mine.begin, mine.end, at::kDouble).unsqueeze(1);
    const at::Tensor rows = gather_logical_rows(comm, v, own);
    expect(at::equal(rows.squeeze(1), at::arange(v, at::kDouble)), "rows of logical ranks come in order");
  }
  expect(any(comm, comm.rank() == n - 1), "any sees the last rank");
  expect(!any(comm, false), "any sees nothing where there is nothing");
  expect(largest(comm, comm.rank() * 10) == (n - 1) * 10, "largest finds the largest");
  barrier(comm);
}

void check_bucket_sum(Communicator& comm, Reduction reduction, int64_t v) {
  for (const int64_t numel : {int64_t{1}, int64_t{2}, int64_t{37}, int64_t{9000}}) {
    const auto sum = make_bucket_sum(reduction, comm, {}, v, numel);
    for (int64_t round = 0; round < 5; ++round) {
      const CanonicalTree tree(some_present(v, round % 4));
      std::vector<at::Tensor> leaves(static_cast<size_t>(v));
      for (int64_t i = 0; i < v; ++i)
        if (tree.present(i)) leaves[static_cast<size_t>(i)] = adversarial(numel, i, round);
      sum->begin(tree);
      for (const FoldPlan::Pass& pass : sum->plan().passes) {
        at::Tensor(sum->buffer(pass.buffer)).copy_(leaves[static_cast<size_t>(pass.leaf)]);
        for (const FoldPlan::Add& add : pass.adds) at::Tensor(sum->buffer(add.into)).add_(sum->buffer(add.from));
      }
      const int64_t cut = numel / 3;
      sum->sum({0, cut});
      sum->sum({cut, numel});
      const std::string what =
          std::to_string(v) + " logical ranks on " + std::to_string(comm.size()) + ", " + std::to_string(numel);
      if (reduction == Reduction::canonical) {
        expect(same_bits(sum->buffer(0), tree_sum(leaves)), "the canonical sum is the tree: " + what);
        continue;
      }
      at::Tensor exact = at::zeros({numel}, at::kDouble);
      for (const at::Tensor& leaf : leaves)
        if (leaf.defined()) exact += leaf.to(at::kDouble);
      const double error = (sum->buffer(0).to(at::kDouble) - exact).abs().max().item<double>();
      expect(error < 1e8 * 1e-6 * static_cast<double>(v), "the sum is right to rounding: " + what);
      // Small whole numbers add up exactly, in any order: none is lost.
      at::Tensor(sum->buffer(0)).fill_(0);
      for (const FoldPlan::Pass& pass : sum->plan().passes) {
        at::Tensor(sum->buffer(pass.buffer))
            .copy_(at::arange(numel, at::kFloat).remainder(7) + static_cast<double>(pass.leaf));
        for (const FoldPlan::Add& add : pass.adds) at::Tensor(sum->buffer(add.into)).add_(sum->buffer(add.from));
      }
      sum->sum({0, numel});
      at::Tensor whole = at::zeros({numel});
      for (int64_t i = 0; i < v; ++i)
        if (tree.present(i)) whole += at::arange(numel, at::kFloat).remainder(7) + static_cast<double>(i);
      expect(same_bits(sum->buffer(0), whole), "whole numbers add up exactly: " + what);
      for (const at::Tensor& theirs : all_gather(comm, sum->buffer(0)))
        expect(same_bits(theirs, sum->buffer(0)), "the sum has the same bits on all ranks: " + what);
    }
  }
}

at::Tensor sum_of_leaves(Communicator& comm, Reduction reduction, int64_t v, int64_t numel) {
  const auto sum = make_bucket_sum(reduction, comm, {}, v, numel);
  sum->begin(CanonicalTree(std::vector<bool>(static_cast<size_t>(v), true)));
  for (const FoldPlan::Pass& pass : sum->plan().passes) {
    at::Tensor(sum->buffer(pass.buffer)).copy_(adversarial(numel, pass.leaf, 0));
    for (const FoldPlan::Add& add : pass.adds) sum->add(add.into, add.from);
  }
  sum->sum({0, numel});
  return sum->buffer(0).clone();
}

void check_reducer(Communicator& comm, int64_t v, double bucket_mb, const Device& device) {
  std::vector<at::Tensor> parameters;
  for (const int64_t numel : {7, 300, 1, 5000, 64})
    parameters.push_back(at::ones({numel}, at::TensorOptions(at::kFloat).device(device.place)).requires_grad_(true));
  const int64_t extra = 5;
  GradientReducer::Options options;
  options.device = device;
  options.logical_ranks = v;
  options.bucket_mb = bucket_mb;
  Trace trace(false);
  GradientReducer reducer(parameters, extra, comm.duplicate(), options, trace);
  for (int64_t step = 0; step < 6; ++step) {
    const CanonicalTree tree(some_present(v, step % 3));
    std::vector<std::vector<at::Tensor>> gradients(parameters.size() + 1,
                                                   std::vector<at::Tensor>(static_cast<size_t>(v)));
    for (int64_t leaf = 0; leaf < v; ++leaf)
      if (tree.present(leaf)) {
        for (size_t i = 0; i < parameters.size(); ++i)
          gradients[i][static_cast<size_t>(leaf)] =
              adversarial(parameters[i].numel(), leaf, step * 100 + static_cast<int64_t>(i));
        gradients.back()[static_cast<size_t>(leaf)] = adversarial(extra, leaf, step * 100 + 50);
      }
    int64_t summed = 0;  // elements handed to on_summed, in order
    reducer.begin_step(tree, [&](Range range) { summed = range.begin == summed ? range.end : -1; });
    const Range mine = carried(comm, v);
    for (int64_t leaf = mine.begin; leaf < mine.end; ++leaf) {
      if (!tree.present(leaf)) continue;
      reducer.begin_leaf(leaf);
      // In two passes, as with accumulation; the second halves of the gradients are zero. In step 4 the last parameter
      // is not used, in step 3 the first one twice.
      for (const bool last : {false, true}) {
        reducer.begin_pass(last);
        at::Tensor loss = at::zeros({}, parameters[0].options().requires_grad(false));
        for (size_t i = 0; i + (step == 4 ? 1 : 0) < parameters.size(); ++i) {
          const at::Tensor gradient = gradients[i][static_cast<size_t>(leaf)].to(device.place) * (last ? 1 : 0);
          loss = loss + (parameters[i] * gradient).sum();
          if (step == 3 && i == 0) loss = loss + (parameters[i] * at::zeros_like(gradient)).sum();
        }
        loss.backward();
      }
      reducer.end_leaf(gradients.back()[static_cast<size_t>(leaf)].to(device.place));
    }
    reducer.finish();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor wanted =
          step == 4 && i + 1 == parameters.size() ? at::zeros_like(parameters[i]).detach() : tree_sum(gradients[i]);
      expect(same_bits(parameters[i].grad(), wanted),
             "parameter " + std::to_string(i) + " has the tree's gradient in step " + std::to_string(step));
      expect(parameters[i].grad().is_alias_of(reducer.gradients()), "a gradient lies in the flat buffer");
    }
    expect(summed == reducer.layout().numel(), "every range is handed on once, in order");
    if (step == 1) {  // another layout of the same parameters
      reducer.reorder({parameters.rbegin(), parameters.rend()});
    }
    expect(same_bits(reducer.extra(), tree_sum(gradients.back())), "the extra floats are summed by the tree");
  }
  expect(bucket_mb == 0 || reducer.bucket_count() > 2, "small buckets are several");
}

}  // namespace dtrain::test
