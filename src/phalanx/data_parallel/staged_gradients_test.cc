// Sums of gradients in a pipeline: of each chunk alone, and of a word table that embedding and head
// share over two ranks.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "phalanx/data_parallel/staged_rank_test_support.h"

namespace phalanx {
namespace {

using nn::values_of;

// A rank that waits for a missing message fails soon.
const LocalOptions kImpatient{.threads_per_rank = 1, .timeout = std::chrono::seconds(5)};

// The gradients of a model after a step, by parameter, and of the word table's last copy.
struct Sums {
  std::vector<Values> gradients;
  Values last_copy;
};

// The work of a rank between begin() and finish_reduction().
using Step = void (*)(StagedRank&);

void last_chunk_first(StagedRank& rank) {
  for (int chunk = rank.num_chunks(); chunk-- > 0;) {
    rank.backward(chunk);
    rank.data_parallel.reduce(chunk);
  }
}

// As in schedules that postpone weight gradients.
void first_chunk_first(StagedRank& rank) {
  for (int chunk = 0; chunk < rank.num_chunks(); ++chunk) {
    rank.backward(chunk);
    rank.data_parallel.reduce(chunk);
  }
}

Sums sums_of(const Staged& staged, Step step = last_chunk_first) {
  Sums sums;
  const StagePart model = stage_part(whole_model(), 0);
  for (const ParamSpec& spec : model.table.specs()) {
    sums.gradients.emplace_back(static_cast<std::size_t>(spec.local_shape.count()), -1.0);
  }
  sums.last_copy = sums.gradients[0];
  run_local_ranks(staged.world_size(), kImpatient, [&](Communicator& world) {
    StagedRank rank(world, staged);
    // The second step has the same gradients as the first.
    for (int i = 0; i < 2; ++i) {
      rank.begin();
      step(rank);
      rank.data_parallel.finish_reduction();
    }
    if (!staged.sharded && rank.data->rank() > 0) return;
    for (const Segment& segment : rank.stores.parameters.states().segments()) {
      const bool is_last_copy = is_uncounted(rank.stores.parameters.states().places(), segment.id);
      Values& whole = is_last_copy
                          ? sums.last_copy
                          : sums.gradients[static_cast<std::size_t>(rank.global(segment.id))];
      std::ranges::copy(values_of(rank.stores.gradients.gradient(segment)),
                        whole.begin() + segment.begin);
    }
  });
  return sums;
}

template <typename Check>
void for_each_way(const StageCut& cut, const Check& check) {
  for (const int data : {1, 2}) {
    for (const bool sharded : {false, true}) {
      if (sharded && data == 1) continue;
      for (const std::int64_t size : {0, 1, 20000}) {
        for (const bool overlap : {false, true}) {
          const Staged staged{cut, data, sharded, size, overlap};
          SCOPED_TRACE(staged.name());
          check(staged);
        }
      }
    }
  }
}

// One rank sums the word table over head and rows of the embedding, then over data-parallel ranks.
TEST(StagedGradients, OfOneRankAreSumsOfTheUnits) {
  const Sums sums = sums_of({.data = 2});
  for (std::int64_t i = 0; i < 104 * 97; ++i) {
    double expected = rich_noise(0, i) + rich_noise(1000, i);
    for (int d = 0; d < 2; ++d) {
      for (int m = 0; m < 2; ++m) {
        if (i / 97 == 3 * d + m) expected += rich_noise(5000 + 10 * d + m, i % 97);
        if (i / 97 == 77) expected += rich_noise(5000 + 10 * d + m, 97 + i % 97);
      }
    }
    ASSERT_NEAR(sums.gradients[0][static_cast<std::size_t>(i)], expected, 2e-14) << i;
  }
}

TEST(StagedGradients, HaveTheBitsOfOneRank) {
  const Sums expected[] = {sums_of({.data = 1}), sums_of({.data = 2})};
  for (const StageCut& cut : all_cuts()) {
    for_each_way(cut, [&](const Staged& staged) {
      const Sums& one_rank = expected[staged.data - 1];
      std::vector<Step> steps = {last_chunk_first};
      if (cut.of(0).size() > 1) steps.push_back(first_chunk_first);
      for (const Step step : steps) {
        const Sums sums = sums_of(staged, step);
        EXPECT_TRUE(sums.gradients == one_rank.gradients);
        const bool has_copies = cut.of(0).back() != cut.stages - 1;
        if (has_copies) {
          EXPECT_TRUE(sums.last_copy == one_rank.gradients[0]);
        }
      }
    });
  }
}

// The last stage finishes its gradients before the first stage starts.
TEST(StagedGradients, OfTheLastStageDoNotWait) {
  for_each_way(contiguous_cut(2), [](const Staged& staged) {
    sums_of(staged, [](StagedRank& rank) {
      const Tensor token = rank.stores.memory.allocate(DType::kF64, {1});
      Context& context = rank.stores.context;
      if (rank.is_last()) {
        rank.backward(0);
        rank.data_parallel.reduce(0);
        rank.embedding->send(context, token, 1, 0).wait(context.queue);
      } else {
        rank.embedding->receive(context, token, 0, 0).wait(context.queue);
        rank.backward(0);
        rank.data_parallel.reduce(0);
      }
    });
  });
}

// Sizes in bytes of the messages so far in one group.
std::vector<std::int64_t> sent(const StagedRank& rank, std::string_view group) {
  std::vector<std::int64_t> bytes;
  for (const Message& message : rank.stores.recorder.messages()) {
    if (message.group == group) bytes.push_back(message.bytes);
  }
  return bytes;
}

bool is_shared_by_two(const StagedRank& rank, ParamId id) {
  return rank.embedding != nullptr && (id == rank.part.embedding.id || id == rank.part.head.id);
}

// The bucket messages of a chunk: those with a shared word table, or those without.
std::vector<std::int64_t> buckets_of(const StagedRank& rank, int chunk, bool with_copy) {
  const auto& buckets = rank.stores.parameters.states().buckets();
  const auto contents = contents_of(rank.stores);
  std::vector<std::int64_t> bytes;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (buckets[b].group != chunk) continue;
    const bool has_copy =
        std::ranges::any_of(contents[b], [&](ParamId id) { return is_shared_by_two(rank, id); });
    if (has_copy == with_copy) bytes.push_back(buckets[b].range.count * 8);
  }
  return bytes;
}

void append(std::vector<std::int64_t>& all, const std::vector<std::int64_t>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

constexpr std::int64_t kWordTableBytes = std::int64_t{104} * 97 * 8;

TEST(StagedMessages, WaitForTheReductionOfTheirChunkWithoutOverlap) {
  for (const bool sharded : {false, true}) {
    for (const std::int64_t size : {0, 1, 20000}) {
      const Staged staged{looped_cut(2), 2, sharded, size, false};
      SCOPED_TRACE(staged.name());
      run_local_ranks(staged.world_size(), kImpatient, [&](Communicator& world) {
        StagedRank rank(world, staged);
        rank.begin();
        rank.stores.recorder.clear();
        std::vector<std::int64_t> data, words;
        const auto expect_sent = [&](std::string_view when) {
          EXPECT_EQ(sent(rank, "dp"), data) << when;
          EXPECT_EQ(sent(rank, "embedding"), words) << when;
        };
        for (const int chunk : {1, 0}) {
          rank.backward(chunk);
          expect_sent("behind the chunk's gradients");
          rank.data_parallel.reduce(chunk);
          append(data, buckets_of(rank, chunk, false));
          const bool has_copy = rank.is_last() ? chunk == 1 : rank.is_first() && chunk == 0;
          if (has_copy) words.push_back(kWordTableBytes);
          expect_sent("behind the reduction");
        }
        rank.data_parallel.finish_reduction();
        for (const int chunk : {1, 0}) append(data, buckets_of(rank, chunk, true));
        expect_sent("at the end");
      });
    }
  }
}

// With one bucket per chunk, it is sent after the chunk's last gradient, whatever the other chunk
// has done. A bucket with a copy of the word table is sent at the end.
TEST(StagedMessages, StartAfterTheLastGradientOfTheirChunk) {
  for (const bool sharded : {false, true}) {
    const Staged staged{looped_cut(2), 2, sharded, 0, true};
    SCOPED_TRACE(staged.name());
    run_local_ranks(staged.world_size(), kImpatient, [&](Communicator& world) {
      StagedRank rank(world, staged);
      rank.begin();
      rank.stores.recorder.clear();
      std::vector<std::int64_t> data, words;
      constexpr int kLast = StagedRank::kMicrobatches - 1;
      for (int microbatch = 0; microbatch < kLast; ++microbatch) {
        for (const int chunk : {1, 0}) {
          for (const auto& use : rank.uses(chunk)) rank.add(use, microbatch);
        }
      }
      // The other chunk has started and is incomplete.
      rank.add(rank.uses(1).back(), kLast);
      for (const int chunk : {0, 1}) {
        auto uses = rank.uses(chunk);
        if (chunk == 1) uses.pop_back();
        for (const auto& use : uses) {
          EXPECT_EQ(sent(rank, "dp"), data) << "in front of " << rank.part.table[use.id].name;
          EXPECT_EQ(sent(rank, "embedding"), words);
          rank.add(use, kLast);
          if (is_shared_by_two(rank, use.id)) words.push_back(kWordTableBytes);
        }
        append(data, buckets_of(rank, chunk, false));
        EXPECT_EQ(sent(rank, "dp"), data) << "behind chunk " << chunk;
      }
      for (const int chunk : {1, 0}) rank.data_parallel.reduce(chunk);
      EXPECT_EQ(sent(rank, "dp"), data);
      rank.data_parallel.finish_reduction();
      for (const int chunk : {1, 0}) append(data, buckets_of(rank, chunk, true));
      EXPECT_EQ(sent(rank, "dp"), data);
      EXPECT_EQ(sent(rank, "embedding"), words);
    });
  }
}

// On a rank with both ends of the model, the word table's buckets wait for both uses.
TEST(StagedMessages, OfAWordTableWaitForBothItsUses) {
  for (const bool overlap : {false, true}) {
    const Staged staged{v_cut(2), 2, false, 0, overlap};
    SCOPED_TRACE(staged.name());
    run_local_ranks(staged.world_size(), kImpatient, [&](Communicator& world) {
      StagedRank rank(world, staged);
      rank.begin();
      rank.stores.recorder.clear();
      rank.backward(0);
      rank.data_parallel.reduce(0);
      EXPECT_EQ(sent(rank, "dp").size(), rank.is_first() ? 0U : 1U);
      rank.backward(1);
      rank.data_parallel.reduce(1);
      const std::size_t behind_both = rank.is_first() && !overlap ? 1U : 2U;
      EXPECT_EQ(sent(rank, "dp").size(), behind_both);
      rank.data_parallel.finish_reduction();
      EXPECT_EQ(sent(rank, "dp").size(), 2U);
      EXPECT_TRUE(sent(rank, "embedding").empty());
    });
  }
}

TEST(StagedGradients, OfACopyNeedTheOtherRank) {
  const StageCut cut = contiguous_cut(2);
  const StagePart part = stage_part(cut, 0);
  StoreRank stores(part.table, places_of(part, cut, 0), shared_sums(part.table, shared_in(cut), 0));
  EXPECT_THROW(
      DataParallel(stores.parameters, stores.gradients, uses_of(part), {}, {}, {}, stores.memory),
      InternalError);
}

}  // namespace
}  // namespace phalanx
