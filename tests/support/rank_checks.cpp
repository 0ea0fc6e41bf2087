#include "support/rank_checks.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <stdexcept>
#include <string>

#include "dtrain/base/random.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/reducer.hpp"

namespace dtrain::test {

static void expect(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error(sentence);
}

static bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && at::equal(a.contiguous().view(at::kInt), b.contiguous().view(at::kInt));
}

// Leaves of which any other order of additions gives other bits: 1e8, 1, −1e8 and small noise.
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

// The tree in one place: recursion over values, independent of the code under test.
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

void check_canonical_sum(Communicator& comm, int64_t v) {
  for (const int64_t numel : {int64_t{1}, int64_t{2}, int64_t{37}, int64_t{4096}})
    for (int64_t round = 0; round < 4; ++round) {
      const CanonicalTree tree(some_present(v, round));
      std::vector<at::Tensor> leaves(static_cast<size_t>(v));
      for (int64_t i = 0; i < v; ++i)
        if (tree.present(i)) leaves[static_cast<size_t>(i)] = adversarial(numel, i, round);
      std::vector<at::Tensor> owned;
      for (const TreeNode node : tree.owned_subtrees(carried(comm, v))) {
        std::vector<at::Tensor> below;
        for (int64_t i = node.index << node.level; i < ((node.index + 1) << node.level) && i < v; ++i)
          below.push_back(leaves[static_cast<size_t>(i)]);
        owned.push_back(tree_sum(below).clone());
      }
      at::Tensor out = at::full({numel}, 7.0F);
      canonical_sum(comm, tree, owned, out);
      expect(same_bits(out, tree_sum(leaves)), "the canonical sum of " + std::to_string(v) + " logical ranks on " +
                                                   std::to_string(comm.size()) + " is the tree");
    }
}

void check_reducer(Communicator& comm, int64_t v, double bucket_mb) {
  std::vector<at::Tensor> parameters;
  for (const int64_t numel : {7, 300, 1, 5000, 64})
    parameters.push_back(at::ones({numel}, at::kFloat).requires_grad_(true));
  const int64_t extra = 5;
  GradientReducer reducer(parameters, extra, comm.duplicate(), v, bucket_mb, [] {});
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
    reducer.begin_step(tree);
    const Range mine = carried(comm, v);
    for (int64_t leaf = mine.begin; leaf < mine.end; ++leaf) {
      if (!tree.present(leaf)) continue;
      reducer.begin_leaf(leaf);
      at::Tensor loss = at::zeros({}, at::kFloat);
      for (size_t i = 0; i + (step == 4 ? 1 : 0) < parameters.size(); ++i)  // in step 4 the last parameter is not used
        loss = loss + (parameters[i] * gradients[i][static_cast<size_t>(leaf)]).sum();
      loss.backward();
      reducer.end_leaf(gradients.back()[static_cast<size_t>(leaf)]);
    }
    reducer.finish();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor wanted =
          step == 4 && i + 1 == parameters.size() ? at::zeros_like(parameters[i]).detach() : tree_sum(gradients[i]);
      expect(same_bits(parameters[i].grad(), wanted),
             "parameter " + std::to_string(i) + " has the tree's gradient in step " + std::to_string(step));
    }
    expect(same_bits(reducer.extra(), tree_sum(gradients.back())), "the extra floats are summed by the tree");
  }
  expect(bucket_mb == 0 || reducer.bucket_count() > 2, "small buckets are several");
}

}  // namespace dtrain::test
