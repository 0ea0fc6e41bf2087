#include "dtrain/dist/collectives.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/message.hpp"

namespace dtrain {

Range carried(const Communicator& comm, int64_t logical_ranks) {
  return part_of(logical_ranks, comm.size(), comm.rank());
}

void broadcast(Communicator& comm, at::Tensor& tensor, int root) {
  check(tensor.is_contiguous(), "a broadcast tensor is contiguous");
  const int n = comm.size();
  const int me = (comm.rank() - root + n) % n;  // number in the tree, 0 for the root
  int round = 1;
  for (; round < n && me >= round; round *= 2)  // the round in which this rank is reached
    if (me < 2 * round) comm.exchange({}, {{(me - round + root) % n, tensor}});
  for (; round < n; round *= 2)
    if (me < round && me + round < n) comm.exchange({{(me + round + root) % n, tensor}}, {});
}

static at::Tensor text_tensor(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  if (!text.empty()) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

static std::string tensor_text(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.data_ptr()), static_cast<size_t>(bytes.numel())};
}

std::string broadcast_text(Communicator& comm, std::string text, int root) {
  at::Tensor size = at::scalar_tensor(static_cast<int64_t>(text.size()), at::kLong);
  broadcast(comm, size, root);
  at::Tensor bytes = comm.rank() == root ? text_tensor(text) : at::empty({size.item<int64_t>()}, at::kByte);
  if (bytes.numel() > 0) broadcast(comm, bytes, root);
  return tensor_text(bytes);
}

// Sends `mine` to all others and fills `theirs[r]` from rank r; empty tensors are not sent.
static void spread(Communicator& comm, const at::Tensor& mine, const std::vector<at::Tensor>& theirs) {
  std::vector<Message> sends;
  std::vector<Message> receives;
  for (int r = 0; r < comm.size(); ++r) {
    if (r == comm.rank()) continue;
    if (mine.numel() > 0) sends.push_back({r, mine});
    if (theirs[static_cast<size_t>(r)].numel() > 0) receives.push_back({r, theirs[static_cast<size_t>(r)]});
  }
  comm.exchange(sends, receives);
}

std::vector<at::Tensor> all_gather(Communicator& comm, const at::Tensor& mine) {
  const at::Tensor sent = mine.contiguous();
  const size_t me = static_cast<size_t>(comm.rank());
  std::vector<at::Tensor> sizes(static_cast<size_t>(comm.size()));
  for (at::Tensor& size : sizes) size = at::empty({1}, at::kLong);
  sizes[me].fill_(sent.size(0));
  spread(comm, sizes[me], sizes);
  std::vector<at::Tensor> all(sizes.size());
  for (size_t r = 0; r < all.size(); ++r) {
    std::vector<int64_t> shape = sent.sizes().vec();
    shape[0] = sizes[r].item<int64_t>();
    all[r] = r == me ? sent : at::empty(shape, sent.options());
  }
  spread(comm, sent, all);
  return all;
}

std::vector<std::string> all_gather_text(Communicator& comm, const std::string& mine) {
  std::vector<std::string> texts;
  for (const at::Tensor& bytes : all_gather(comm, text_tensor(mine))) texts.push_back(tensor_text(bytes));
  return texts;
}

std::vector<std::string> gather_text(Communicator& comm, const std::string& mine, int root) {
  const at::Tensor sizes = at::stack(all_gather(comm, at::full({1}, static_cast<int64_t>(mine.size()), at::kLong)));
  const at::Tensor bytes = text_tensor(mine);
  std::vector<Message> sends;
  std::vector<Message> receives;
  std::vector<at::Tensor> all;
  for (int r = 0; r < comm.size(); ++r) {
    all.push_back(r == comm.rank() ? bytes
                                   : at::empty({comm.rank() == root ? sizes[r].item<int64_t>() : 0}, at::kByte));
    if (comm.rank() == root && r != root && all.back().numel() > 0) receives.push_back({r, all.back()});
  }
  if (comm.rank() != root && bytes.numel() > 0) sends.push_back({root, bytes});
  comm.exchange(sends, receives);
  std::vector<std::string> texts;
  if (comm.rank() == root)
    for (const at::Tensor& one : all) texts.push_back(tensor_text(one));
  return texts;
}

at::Tensor gather_logical_rows(Communicator& comm, int64_t logical_ranks, const at::Tensor& own_rows) {
  at::Tensor rows = at::empty({logical_ranks, own_rows.size(1)}, own_rows.options());
  std::vector<at::Tensor> parts;
  for (int r = 0; r < comm.size(); ++r) {
    const Range range = part_of(logical_ranks, comm.size(), r);
    parts.push_back(rows.slice(0, range.begin, range.end));
  }
  parts[static_cast<size_t>(comm.rank())].copy_(own_rows);
  spread(comm, parts[static_cast<size_t>(comm.rank())], parts);
  return rows;
}

// Gathers one 64-bit value from every rank, without exchanging sizes first as all_gather must.
static std::vector<int64_t> gather_values(Communicator& comm, int64_t mine) {
  at::Tensor values = at::empty({comm.size()}, at::kLong);
  std::vector<at::Tensor> slots;
  for (int r = 0; r < comm.size(); ++r) slots.push_back(values.slice(0, r, r + 1));
  slots[static_cast<size_t>(comm.rank())].fill_(mine);
  spread(comm, slots[static_cast<size_t>(comm.rank())], slots);
  const auto* begin = values.const_data_ptr<int64_t>();
  return {begin, begin + comm.size()};
}

int64_t largest(Communicator& comm, int64_t mine) {
  const std::vector<int64_t> values = gather_values(comm, mine);
  return *std::max_element(values.begin(), values.end());
}

bool any(Communicator& comm, bool mine) { return largest(comm, mine ? 1 : 0) != 0; }

void barrier(Communicator& comm) { gather_values(comm, 0); }

// The sum of the tree below `node`; `known` holds the subtrees that are there. Adds in place, into the left operand.
static at::Tensor finish_tree(const CanonicalTree& tree, TreeNode node, const std::map<TreeNode, at::Tensor>& known) {
  if (const auto found = known.find(node); found != known.end()) return found->second;
  check(node.level > 0, "every present leaf lies below a subtree that some rank owns");
  if (!tree.occupied(node.left())) return finish_tree(tree, node.right(), known);
  at::Tensor sum = finish_tree(tree, node.left(), known);
  if (tree.occupied(node.right())) sum.add_(finish_tree(tree, node.right(), known));
  return sum;
}

at::Tensor canonical_row_sum(const CanonicalTree& tree, const at::Tensor& rows) {
  std::map<TreeNode, at::Tensor> leaves;
  for (int64_t v = 0; v < tree.logical_ranks(); ++v)
    if (tree.present(v)) leaves[{0, v}] = rows[v].clone();
  return finish_tree(tree, tree.root(), leaves);
}

}  // namespace dtrain
