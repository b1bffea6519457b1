#pragma once
// One rank of a pipeline with data parallelism. Its gradients are functions of (parameter, place,
// data-parallel rank), for tests of their sums.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/data_parallel/stages_test_support.h"
#include "phalanx/ops/embedding.h"

namespace phalanx {

// Ranks are numbered with the data-parallel rank fastest.
struct Staged {
  StageCut cut = whole_model();
  int data = 1;
  bool sharded = false;
  std::int64_t bucket_size = 0;
  bool overlap = false;

  int world_size() const { return data * cut.size(); }
  std::string name() const {
    return fmt::format("{}, {} data-parallel ranks, sharded {}, buckets of {}, overlap {}",
                       cut.name, data, sharded, bucket_size, overlap);
  }
};

// Uses all 53 bits, so that another order of sums gives other bits.
inline double rich_noise(int stream, std::int64_t index) {
  return noise(static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(index)) * 1.1;
}

struct StagedRank {
  static constexpr int kMicrobatches = 2;

  StagedRank(Communicator& world, const Staged& layout)
      : staged(layout),
        part(stage_part(staged.cut, world.rank() / staged.data)),
        data(world.split(data_groups(), "dp")),
        shared(shared_in(staged.cut)),
        embedding(world.split(embedding_groups(), "embedding")),
        stores(part.table, places_of(part, staged.cut, world.rank() / staged.data),
               shared_sums(part.table, shared, world.rank() / staged.data), shard()),
        data_parallel(
            stores.parameters, stores.gradients, uses_of(part),
            {.data = {staged.data > 1 ? data.get() : nullptr}, .shared = {embedding.get()}}, {},
            {.overlap_grad_reduce = staged.overlap, .overlap_param_gather = false}, stores.memory) {
  }

  bool is_first() const { return part.embedding.id >= 0; }
  bool is_last() const { return part.head.id >= 0; }
  int num_chunks() const { return part.table.num_chunks(); }

  // Before any gradient is complete; fills dense gradients with values that are no sums.
  void begin() {
    stores.gradients.clear(stores.context);
    for (ParamId id = 0; id < part.table.size(); ++id) {
      const bool is_sum_of_rows = id == part.embedding.id && id != part.head.id;
      if (!is_sum_of_rows) ops::fill(stores.context, {.x = gradient(id), .value = 1e9});
    }
    data_parallel.begin(stores.context, kMicrobatches - 1);
  }

  // A unit's addition to a gradient.
  struct Use {
    ParamId id;
    bool by_embedding;
  };
  // The uses of a chunk in the order of its backward pass.
  std::vector<Use> uses(int chunk) const {
    std::vector<Use> uses;
    if (is_last() && chunk == num_chunks() - 1) uses.push_back({part.head.id, false});
    for (ParamId id = part.table.size(); id-- > 0;) {
      if (part.table.chunk(id) != chunk) continue;
      const bool by_embedding = id == part.embedding.id;
      if (id != part.head.id || by_embedding) uses.push_back({id, by_embedding});
    }
    return uses;
  }
  // Sets a dense gradient with the last microbatch.
  void add(const Use& use, int microbatch) {
    if (use.by_embedding) {
      add_rows(microbatch);
    } else if (microbatch == kMicrobatches - 1) {
      const int stream = 1000 * data->rank() + global(use.id);
      set_each(gradient(use.id), [&](std::int64_t i) { return rich_noise(stream, i); });
    }
    data_parallel.grad_ready(use.id, microbatch);
  }
  void backward(int chunk) {
    for (int microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
      for (const Use& use : uses(chunk)) add(use, microbatch);
    }
  }

  ParamId global(ParamId id) const {
    return stores.parameters.states().places().global[static_cast<std::size_t>(id)];
  }
  const Tensor& gradient(ParamId id) const { return stores.gradients.gradient(id); }

  std::vector<std::vector<int>> data_groups() const {
    std::vector<std::vector<int>> groups(static_cast<std::size_t>(staged.cut.size()));
    for (int rank = 0; rank < staged.world_size(); ++rank) {
      groups[static_cast<std::size_t>(rank / staged.data)].push_back(rank);
    }
    return groups;
  }
  // Empty if one rank has both ends of the model.
  std::vector<std::vector<int>> embedding_groups() const {
    const std::vector<int>& holders = shared.at(0).holders;
    std::vector<std::vector<int>> groups;
    for (int d = 0; holders.size() > 1 && d < staged.data; ++d) {
      auto& group = groups.emplace_back();
      for (const int holder : holders) group.push_back(holder * staged.data + d);
    }
    return groups;
  }
  StateCut shard() const {
    if (!staged.sharded) return {.bucket_size = staged.bucket_size};
    return {.domains = {{.rank = data->rank(), .ranks = staged.data}},
            .bucket_size = staged.bucket_size};
  }

  // Two tokens of the microbatch; one of them occurs in both microbatches and on all ranks.
  void add_rows(int microbatch) {
    const WorkspaceScope scope(stores.workspace);
    const Tensor ids = stores.workspace.allocate(DType::kI32, {2, 1});
    ids.span<std::int32_t>()[0] = 3 * data->rank() + microbatch;
    ids.span<std::int32_t>()[1] = 77;
    const Tensor dy = stores.workspace.allocate(DType::kF64, {2, 1, 97});
    const int stream = 5000 + 10 * data->rank() + microbatch;
    set_each(dy, [&](std::int64_t i) { return rich_noise(stream, i); });
    stores.gradients.gradients().mark_written(part.embedding);
    const nn::SparseGradient sparse = stores.gradients.gradients().rows(part.embedding);
    ops::sparse_embedding_gradient(stores.context, {.slots = sparse.slots,
                                                    .rows = sparse.rows,
                                                    .count = sparse.count,
                                                    .values = sparse.values,
                                                    .ids = ids,
                                                    .dy = dy});
  }

  const Staged staged;
  const StagePart part;
  const std::unique_ptr<Communicator> data;
  const std::vector<SharedParameter> shared;
  const std::unique_ptr<Communicator> embedding;
  StoreRank stores;
  DataParallel data_parallel;
};

}  // namespace phalanx
