#include "phalanx/data_parallel/data_parallel.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/data_parallel/test_support.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {
namespace {

using nn::values_of;

constexpr int kMicrobatches = 3;

// Gradients of one step become ready in backward order, from the last parameter to the first. Calls
// `after_each` after each gradient of the last microbatch.
void backward(DataParallel& data_parallel, const std::function<void(ParamId)>& after_each) {
  for (int microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
    for (const ParamId id : {4, 3, 2, 1, 3, 0}) {
      data_parallel.grad_ready(id, microbatch);
      if (microbatch == kMicrobatches - 1) after_each(id);
    }
  }
}

struct Layout {
  int ranks = 2;
  bool sharded = false;
  std::int64_t bucket_size = 0;
  bool overlap = false;
};

StateCut shard_of_rank(const Layout& layout, int rank) {
  if (!layout.sharded) return {.bucket_size = layout.bucket_size};
  return {.domains = {{.rank = rank, .ranks = layout.ranks}}, .bucket_size = layout.bucket_size};
}

DataParallelOptions options_of(const Layout& layout) {
  return {.overlap_grad_reduce = layout.overlap, .overlap_param_gather = false};
}

// The gradients by parameter, joined from the ranks' shards; without shards all ranks must agree.
std::vector<Values> reduced_gradients(const Layout& layout) {
  std::vector<std::vector<std::pair<Segment, Values>>> parts(
      static_cast<std::size_t>(layout.ranks));
  run_local_ranks(layout.ranks, {}, [&](Communicator& world) {
    StoreRank rank(uneven_table(DType::kF32), shard_of_rank(layout, world.rank()));
    DataParallel data_parallel(rank.parameters, rank.gradients, kUses, {.data = {&world}}, {},
                               options_of(layout), rank.memory);
    data_parallel.begin(rank.context, kMicrobatches - 1);
    rank.set_gradients(static_cast<std::uint64_t>(world.rank()));
    backward(data_parallel, [](ParamId) {});
    data_parallel.reduce(0);
    data_parallel.finish_reduction();
    for (const Segment& segment : rank.parameters.states().segments()) {
      parts[static_cast<std::size_t>(world.rank())].emplace_back(
          segment, values_of(rank.gradients.gradient(segment)));
    }
  });
  const nn::ParamTable table = uneven_table(DType::kF32);
  std::vector<Values> whole;
  for (const ParamSpec& spec : table.specs()) {
    whole.emplace_back(static_cast<std::size_t>(spec.local_shape.count()), -1.0);
  }
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const auto same_values = [](const auto& a, const auto& b) { return a.second == b.second; };
    if (!layout.sharded) {
      EXPECT_TRUE(std::ranges::equal(parts[r], parts[0], same_values)) << "rank " << r;
    }
    for (const auto& [segment, values] : parts[r]) {
      std::ranges::copy(values,
                        whole[static_cast<std::size_t>(segment.id)].begin() + segment.begin);
    }
  }
  return whole;
}

TEST(DataParallelGradients, HaveTheSameBitsUnderEveryLayout) {
  for (const int ranks : {2, 3, 4}) {
    const auto expected = reduced_gradients({.ranks = ranks});
    // Compares with plain sums over ranks.
    for (ParamId id = 0; id < 5; ++id) {
      const Values& values = expected[static_cast<std::size_t>(id)];
      for (std::size_t i = 0; i < values.size(); ++i) {
        double sum = 0.0;
        for (int r = 0; r < ranks; ++r) sum += noise(static_cast<std::uint64_t>(100 * r + id), i);
        ASSERT_NEAR(values[i], sum, 1e-6) << id << " " << i;
      }
    }
    for (const bool sharded : {false, true}) {
      for (const std::int64_t size : {0, 1, 20000}) {
        for (const bool overlap : {false, true}) {
          EXPECT_EQ(reduced_gradients({ranks, sharded, size, overlap}), expected) << fmt::format(
              "{} ranks, sharded {}, buckets of {}, overlap {}", ranks, sharded, size, overlap);
        }
      }
    }
  }
}

// A bucket's message starts exactly after the last gradient of the last microbatch in the bucket.
TEST(DataParallelMessages, StartWhenABucketIsComplete) {
  for (const bool sharded : {false, true}) {
    for (const std::int64_t size : {0, 1, 20000}) {
      SCOPED_TRACE(fmt::format("sharded {}, buckets of {}", sharded, size));
      const Layout layout{.ranks = 2, .sharded = sharded, .bucket_size = size, .overlap = true};
      run_local_ranks(2, {}, [&](Communicator& world) {
        StoreRank rank(uneven_table(DType::kF32), shard_of_rank(layout, world.rank()));
        const auto& buckets = rank.parameters.states().buckets();
        const auto contents = contents_of(rank);
        DataParallel data_parallel(rank.parameters, rank.gradients, kUses, {.data = {&world}}, {},
                                   options_of(layout), rank.memory);
        for (int step = 0; step < 2; ++step) {
          data_parallel.begin(rank.context, kMicrobatches - 1);
          rank.recorder.clear();
          std::vector<int> times(5, 0);
          std::vector<std::int64_t> started;  // bytes
          std::set<std::size_t> done;
          backward(data_parallel, [&](ParamId id) {
            ++times[static_cast<std::size_t>(id)];
            for (std::size_t b = 0; b < buckets.size(); ++b) {
              const bool complete =
                  !contents[b].empty() && std::ranges::all_of(contents[b], [&](ParamId part) {
                    return times[static_cast<std::size_t>(part)] ==
                           kUses[static_cast<std::size_t>(part)];
                  });
              if (complete && done.insert(b).second) started.push_back(buckets[b].range.count * 4);
            }
            std::vector<std::int64_t> sent;
            for (const Message& message : rank.recorder.messages()) {
              EXPECT_EQ(message.op, sharded ? "reduce_scatter" : "all_reduce");
              sent.push_back(message.bytes);
            }
            EXPECT_EQ(sent, started) << "behind parameter " << id;
          });
          data_parallel.reduce(0);
          data_parallel.finish_reduction();
          EXPECT_EQ(rank.recorder.messages().size(), buckets.size());
        }
      });
    }
  }
}

TEST(DataParallelMessages, WaitForReduceWithoutOverlap) {
  run_local_ranks(2, {}, [](Communicator& world) {
    const Layout layout{.ranks = 2, .sharded = true, .bucket_size = 20000};
    StoreRank rank(uneven_table(DType::kF32), shard_of_rank(layout, world.rank()));
    DataParallel data_parallel(rank.parameters, rank.gradients, kUses, {.data = {&world}}, {},
                               options_of(layout), rank.memory);
    data_parallel.begin(rank.context, kMicrobatches - 1);
    backward(data_parallel, [](ParamId) {});
    EXPECT_TRUE(rank.recorder.messages().empty());
    data_parallel.reduce(0);
    data_parallel.finish_reduction();
    EXPECT_EQ(rank.recorder.messages().size(), rank.parameters.states().buckets().size());
  });
}

TEST(DataParallelMessages, EvaluationSendsNone) {
  run_local_ranks(2, {}, [](Communicator& world) {
    StoreRank rank(uneven_table(DType::kF32), {.bucket_size = 1});
    DataParallel data_parallel(rank.parameters, rank.gradients, kUses, {.data = {&world}}, {},
                               {.overlap_grad_reduce = true}, rank.memory);
    data_parallel.begin(rank.context, -1);
    backward(data_parallel, [](ParamId) {});
    EXPECT_TRUE(rank.recorder.messages().empty());
  });
}

TEST(DataParallelGradients, OfOneRankAreUnchanged) {
  StoreRank rank(uneven_table(DType::kF32), {.bucket_size = 1});
  DataParallel data_parallel(rank.parameters, rank.gradients, kUses, {}, {},
                             {.overlap_grad_reduce = true}, rank.memory);
  data_parallel.begin(rank.context, kMicrobatches - 1);
  rank.set_gradients(7);
  const Values before = values_of(rank.gradients.flat());
  backward(data_parallel, [](ParamId) {});
  data_parallel.reduce(0);
  data_parallel.finish_reduction();
  data_parallel.gather();
  data_parallel.finish_gather();
  EXPECT_EQ(values_of(rank.gradients.flat()), before);
  EXPECT_TRUE(rank.recorder.messages().empty());
}

// The roles of a tied word table are summed before the sum over ranks starts.
TEST(DataParallelGradients, JoinTheTiedEmbeddingFirst) {
  for (const bool overlap : {false, true}) {
    run_local_ranks(2, {}, [&](Communicator& world) {
      nn::ParamTable table;
      ParamSpec words =
          whole_parameter("words", {6, 3}, DType::kF32, {Initialiser::Kind::kNormal, 1.0});
      words.shared_by = "embd";
      table.add_shared(words, {.order = kHeadRole});
      const nn::ParamUse use = table.add_shared(
          words, {.order = kEmbeddingRole, .gradient = ParamRole::Gradient::kRows});
      StoreRank rank(table);
      DataParallel data_parallel(rank.parameters, rank.gradients, {2}, {.data = {&world}}, {},
                                 {.overlap_grad_reduce = overlap}, rank.memory);
      const Tensor ids = rank.memory.allocate(DType::kI32, {2, 1});
      set_each(ids, [](std::int64_t) { return 0.0; });
      ids.span<std::int32_t>()[0] = 1 + world.rank();
      ids.span<std::int32_t>()[1] = 5;
      const Tensor dy = rank.memory.allocate(DType::kF32, {2, 1, 3});
      set_each(dy, [](std::int64_t i) { return static_cast<double>(1 + i); });
      for (int step = 0; step < 2; ++step) {
        rank.gradients.clear(rank.context);
        data_parallel.begin(rank.context, 0);
        ops::fill(rank.context, {.x = rank.gradients.gradient(0), .value = 0.25});
        data_parallel.grad_ready(0, 0);
        rank.gradients.gradients().mark_written(use);
        const nn::SparseGradient sparse = rank.gradients.gradients().rows(use);
        ops::sparse_embedding_gradient(rank.context, {.slots = sparse.slots,
                                                      .rows = sparse.rows,
                                                      .count = sparse.count,
                                                      .values = sparse.values,
                                                      .ids = ids,
                                                      .dy = dy});
        data_parallel.grad_ready(0, 0);
        data_parallel.reduce(0);
        data_parallel.finish_reduction();
        EXPECT_EQ(values_of(rank.gradients.gradient(0)),
                  (Values{0.5, 0.5, 0.5, 1.5, 2.5, 3.5, 1.5, 2.5, 3.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5,
                          8.5, 10.5, 12.5}));
      }
    });
  }
}

// Two tensor-parallel ranks in each of `data_size` data-parallel ranks: a rank's communicators of
// both groups.
struct TwoTensorRanks {
  TwoTensorRanks(Communicator& world, int data_size, const std::string& tensor_name) {
    std::vector<std::vector<int>> tensor_groups, data_groups(2);
    for (int d = 0; d < data_size; ++d) {
      tensor_groups.push_back({2 * d, 2 * d + 1});
      data_groups[0].push_back(2 * d);
      data_groups[1].push_back(2 * d + 1);
    }
    tensor = world.split(tensor_groups, tensor_name);
    data = world.split(data_groups, "dp");
  }
  std::unique_ptr<Communicator> tensor, data;
};

// Gradients of parameters on the sequence-parallel stream are summed over all four ranks, others
// only over data-parallel ranks.
void sum_over_sequence(int data_size, bool sharded, std::int64_t bucket_size) {
  SCOPED_TRACE(fmt::format("{} data-parallel ranks, sharded {}, buckets of {}", data_size, sharded,
                           bucket_size));
  run_local_ranks(2 * data_size, {}, [&](Communicator& world) {
    const TwoTensorRanks groups(world, data_size, "tp");
    const auto& [tensor, data] = groups;
    const nn::ParamTable plain = uneven_table(DType::kF64);
    nn::ParamTable table;
    for (ParamId id = 0; id < plain.size(); ++id) {
      ParamSpec spec = plain[id];
      if (id == 1 || id == 2 || id == 3) spec.summed_over = kRowAxes.with(Axis::kTensor);
      table.add(spec);
    }
    StateCut shard{.bucket_size = bucket_size};
    if (sharded)
      shard = {.domains = {{.rank = data->rank(), .ranks = data_size}}, .bucket_size = bucket_size};
    StoreRank rank(table, shard);
    const TensorRegion region({.rank = tensor->rank(), .size = 2, .sequence = true}, tensor.get());
    DataParallel data_parallel(rank.parameters, rank.gradients, kUses,
                               {.data = {data_size > 1 ? data.get() : nullptr}}, region,
                               {.overlap_grad_reduce = true}, rank.memory);
    data_parallel.begin(rank.context, kMicrobatches - 1);
    rank.set_gradients(static_cast<std::uint64_t>(world.rank()));
    backward(data_parallel, [](ParamId) {});
    data_parallel.reduce(0);
    data_parallel.finish_reduction();
    std::set<ParamId> seen;
    for (const Segment& segment : rank.parameters.states().segments()) {
      const bool partial = segment.id >= 1 && segment.id <= 3;
      seen.insert(segment.id);
      const Values sums = values_of(rank.gradients.gradient(segment));
      for (std::size_t i = 0; i < sums.size(); ++i) {
        double expected = 0.0;
        for (int r = 0; r < world.size(); ++r) {
          if (!partial && r % 2 != tensor->rank()) continue;
          expected += noise(static_cast<std::uint64_t>(100 * r + segment.id),
                            static_cast<std::uint64_t>(segment.begin) + i);
        }
        ASSERT_NEAR(sums[i], expected, 1e-13) << segment.id << " " << segment.begin + i;
      }
    }
    if (!sharded) {
      EXPECT_EQ(seen.size(), 5U);
    }
    // All of them are in one message, of the same size on every rank.
    std::int64_t partial_bytes = 0;
    for (const ParamId id : {1, 2, 3}) partial_bytes += table[id].local_shape.count() * 8;
    std::vector<Message> over_sequence;
    for (const Message& message : rank.recorder.messages()) {
      if (message.group == "tp") over_sequence.push_back(message);
    }
    EXPECT_EQ(over_sequence, (std::vector<Message>{{"tp", "all_reduce", partial_bytes}}));
  });
}

TEST(DataParallelGradients, OfTheStreamAreSummedOverTheSequence) {
  sum_over_sequence(1, false, 0);
  sum_over_sequence(2, false, 20000);
  sum_over_sequence(2, true, 0);
  // A shard with several segments of a parameter.
  sum_over_sequence(2, true, 1);
  sum_over_sequence(2, true, 20000);
}

// Both ranks of a tensor-parallel group hold the last rows of a matrix and of a vector. These rows
// are summed over all ranks, the others only over data-parallel ranks.
void sum_over_box_holders(int data_size, bool sharded, std::int64_t bucket_size) {
  SCOPED_TRACE(fmt::format("{} data-parallel ranks, sharded {}, buckets of {}", data_size, sharded,
                           bucket_size));
  run_local_ranks(2 * data_size, {}, [&](Communicator& world) {
    const TwoTensorRanks groups(world, data_size, "kv");
    const auto& [tensor, data] = groups;
    const int rank_of_part = tensor->rank();
    const auto rows = [&](std::int64_t own, std::int64_t common) {
      return std::vector<RowRange>{
          {.first = rank_of_part * own, .count = own},
          {.first = 2 * own, .count = common, .holders = 2, .holder = rank_of_part}};
    };
    constexpr std::int64_t kColumns = 70;
    nn::ParamTable table;
    table.add(whole_parameter("0", {90, kColumns}, DType::kF64, {}));
    table.add(row_ranges_parameter("1", {250, kColumns}, DType::kF64, {}, rows(100, 50), 2));
    table.add(row_ranges_parameter("2", {25}, DType::kF64, {}, rows(10, 5), 2));
    StateCut shard{.bucket_size = bucket_size};
    if (sharded)
      shard = {.domains = {{.rank = data->rank(), .ranks = data_size}}, .bucket_size = bucket_size};
    StoreRank rank(table, shard);
    DataParallel data_parallel(
        rank.parameters, rank.gradients, {1, 1, 1},
        {.data = {data_size > 1 ? data.get() : nullptr}, .box_holders = tensor.get()}, {},
        {.overlap_grad_reduce = true}, rank.memory);
    data_parallel.begin(rank.context, 0);
    rank.set_gradients(static_cast<std::uint64_t>(world.rank()));
    for (const ParamId id : {2, 1, 0}) data_parallel.grad_ready(id, 0);
    data_parallel.reduce(0);
    data_parallel.finish_reduction();
    const std::vector<std::int64_t> alone = {90 * kColumns, 100 * kColumns, 10};
    for (const Segment& segment : rank.parameters.states().segments()) {
      const Values sums = values_of(rank.gradients.gradient(segment));
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const std::int64_t place = segment.begin + static_cast<std::int64_t>(i);
        double expected = 0.0;
        for (int r = 0; r < world.size(); ++r) {
          const bool is_common = place >= alone[static_cast<std::size_t>(segment.id)];
          if (!is_common && r % 2 != rank_of_part) continue;
          expected += noise(static_cast<std::uint64_t>(100 * r + segment.id),
                            static_cast<std::uint64_t>(place));
        }
        ASSERT_NEAR(sums[i], expected, 1e-13) << segment.id << " " << place;
      }
    }
    // The messages have the same size on every rank.
    std::vector<Message> over_holders;
    for (const Message& message : rank.recorder.messages()) {
      if (message.group == "kv") over_holders.push_back(message);
    }
    EXPECT_EQ(over_holders, (std::vector<Message>{{"kv", "all_reduce", 50 * kColumns * 8},
                                                  {"kv", "all_reduce", 5 * 8}}));
  });
}

TEST(DataParallelGradients, OfSharedRowsAreSummedOverTheirHolders) {
  sum_over_box_holders(1, false, 0);
  sum_over_box_holders(2, false, 5000);
  sum_over_box_holders(2, true, 0);
  // Shards start and end within these rows.
  sum_over_box_holders(2, true, 1);
  sum_over_box_holders(3, true, 5000);
}

TEST(DataParallelGradients, OfSharedRowsNeedTheirHolders) {
  nn::ParamTable table;
  table.add(row_ranges_parameter("w", {6, 2}, DType::kF64, {},
                                 {{0, 2}, {.first = 4, .count = 2, .holders = 2}}, 2));
  StoreRank rank(table);
  EXPECT_THROW(DataParallel(rank.parameters, rank.gradients, {1}, {}, {}, {}, rank.memory),
               InternalError);
}

}  // namespace
}  // namespace phalanx
