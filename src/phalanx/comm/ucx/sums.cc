#include "phalanx/comm/ucx/sums.h"

#include <span>
#include <utility>
#include <vector>

#include "phalanx/comm/reduce.h"
#include "phalanx/comm/ucx/collectives.h"
#include "phalanx/comm/ucx/engine.h"
#include "phalanx/comm/ucx/gathers.h"
#include "phalanx/comm/ucx/patterns.h"
#include "phalanx/comm/ucx/slice_sums.h"

namespace phalanx::ucx {
namespace {

// Small data of all members in the order of ranks.
void add_all(const Operation& operation, const Sums& sums, std::byte* output, const std::byte* mine,
             std::vector<const std::byte*> sources) {
  const Call& call = operation.call();
  sources.insert(sources.begin() + operation.rank(), mine);
  reduce({.from = call.dtype,
          .to = call.dtype,
          .reduction = call.reduction,
          .block = sums.steps.tree().block()},
         sources, std::span(&output, 1), 0, call.count);
}

// Up the tree: the first member below each node adds its terms. The first of all has the sum.
Task add_upwards(Operation& operation, const Sums& sums, std::byte* tensor) {
  const SumTree& tree = sums.steps.tree();
  const Call& call = operation.call();
  const DType partial = partial_dtype(call.dtype);
  std::vector<std::byte> sum;  // of the node below which this rank is the first
  const std::byte* mine = tensor;
  int node = operation.rank(), distance = 1;  // between the first members of neighbouring nodes
  for (int level = 1; level <= tree.levels(); ++level) {
    const DType from = level == 1 ? call.dtype : partial;
    const std::int64_t bytes = call.count * size_of(from);
    Batch batch(operation);
    if (node % tree.block() != 0) {
      batch.send(operation.rank() - node % tree.block() * distance, Lane::kData, mine,
                 unsigned_of(bytes));
      co_await batch;
      co_return;
    }
    node /= tree.block();
    const int terms = tree.terms(level, node);
    std::vector<std::byte> came(unsigned_of((terms - 1) * bytes));
    std::vector<const std::byte*> sources = {mine};
    for (int term = 1; term < terms; ++term) {
      std::byte* const source = came.data() + (term - 1) * bytes;
      batch.receive(operation.rank() + term * distance, Lane::kData, source, unsigned_of(bytes));
      sources.push_back(source);
    }
    co_await batch;
    const bool is_all = level == tree.levels();
    std::vector<std::byte> added(is_all ? 0 : unsigned_of(call.count * size_of(partial)));
    std::byte* const output = is_all ? tensor : added.data();
    reduce({.from = from,
            .to = is_all ? call.dtype : partial,
            .reduction = call.reduction,
            .block = tree.block()},
           sources, std::span(&output, 1), 0, call.count);
    sum = std::move(added);
    mine = sum.data();
    distance *= tree.block();
  }
}

}  // namespace

std::int64_t bytes_of_sums(int members, int block, bool has_adders) {
  return Scratch::kBlocks * most_slice_sum_bytes(SumTree(members, block), has_adders);
}

Task all_reduce(Operation& operation, std::shared_ptr<Sums> sums, std::byte* tensor) {
  const std::int64_t bytes = bytes_of(operation.call());
  if (is_small(bytes) && operation.size() <= kFewRanks) {
    Batch batch(operation);
    const auto came = to_everyone(batch, operation, bytes, [&](int) { return tensor; });
    // Awaiting the batch frees the buffers.
    co_await batch.kept();
    add_all(operation, *sums, tensor, tensor, came);
    co_return;
  }
  Batch headers(operation);
  compare_around(headers, operation);
  if (is_small(bytes)) {
    Task adding = add_upwards(operation, *sums, tensor);
    co_await adding;
    Task spreading = spread(operation, tensor, bytes, 0);
    co_await spreading;
    co_await headers;
    co_return;
  }
  const Slices parts(bytes, operation.size(), 64);
  const SliceSum sum{tensor + parts.begin(operation.rank()), tensor, parts};
  Task adding = add_slices(operation, *sums, sum);
  co_await adding;
  co_await headers;
  Task gathering = gather_slices(operation, tensor, parts);
  co_await gathering;
}

Task reduce_scatter(Operation& operation, std::shared_ptr<Sums> sums, std::byte* output,
                    const std::byte* input) {
  const std::int64_t bytes = bytes_of(operation.call());
  const std::byte* mine = input + operation.rank() * bytes;
  if (is_small(bytes) && operation.size() <= kFewRanks) {
    Batch batch(operation);
    const auto came =
        to_everyone(batch, operation, bytes, [&](int member) { return input + member * bytes; });
    co_await batch.kept();
    add_all(operation, *sums, output, mine, came);
    co_return;
  }
  Batch headers(operation);
  compare_around(headers, operation);
  const Slices parts(bytes * operation.size(), operation.size(), std::max<std::int64_t>(bytes, 1));
  Task adding = add_slices(operation, *sums, {output, input, parts});
  co_await adding;
  co_await headers;
}

}  // namespace phalanx::ucx
