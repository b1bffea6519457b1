#include "phalanx/saving/gathered_tensors.h"

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using Bytes = std::vector<std::byte>;

// The bytes of a global tensor: a pattern that tells every element and tensor from its neighbours.
Bytes pattern(const TensorSource::Info& info, int index) {
  const auto size = static_cast<std::size_t>(size_of(info.dtype));
  Bytes bytes(static_cast<std::size_t>(info.global_shape.count()) * size);
  for (std::size_t i = 0; i * size < bytes.size(); ++i) {
    const auto value = static_cast<std::uint32_t>(i * 40503U + static_cast<std::size_t>(index));
    std::memcpy(bytes.data() + i * size, &value, size);
  }
  return bytes;
}

// What lies between and beside the parts: padding that must not be seen.
void poison(const Rank& rank) {
  const Tensor& weights = rank.parameters().flat();
  std::memset(weights.data(), 0xee, static_cast<std::size_t>(weights.bytes()));
}

TrainConfig resolved(const Layout& layout, std::int64_t bucket_size, bool bf16) {
  TrainConfig c =
      with_flags({},
                 "--num-layers 2 --hidden-size 32 --num-attention-heads 4 "
                 "--max-position-embeddings 24 --seq-length 24 --make-vocab-size-divisible-by 32 "
                 "--micro-batch-size 1 --threads-per-rank 1");
  c.model.bf16 = bf16;
  c = with_layout(c, layout);
  c.layout.ddp_bucket_size = bucket_size;
  resolve(c, false);
  return c;
}

// Each rank fills what it has of every tensor; the first one visits them whole.
void expect_gathered(const TrainConfig& config, std::int64_t vocabulary) {
  const auto model = make_model(config, vocabulary);
  const std::string label =
      fmt::format("t {}, world {}, stage {}, {} copies, bf16 {}, {} groups",
                  config.layout.tensor_model_parallel_size, config.layout.world_size,
                  config.layout.zero_stage, config.layout.num_distributed_optimizer_instances,
                  config.model.bf16, config.model.num_query_groups);
  std::mutex mutex;
  std::map<std::string, std::int64_t> elements;  // by tensor: what all ranks contribute
  std::map<std::string, std::int64_t> expected;
  run_ranks(config, *model, [&](Rank& rank) {
    poison(rank);
    auto tensors = contributed_tensors(rank, {});
    const auto size = static_cast<int>(tensors.size());
    const ParamId parameters = rank.table().size();
    EXPECT_EQ(size, (config.model.bf16 ? 4 : 3) * parameters);
    for (int i = 0; i < size; ++i) {
      const auto& [info, parts, fetches] = tensors[static_cast<std::size_t>(i)];
      const Bytes bytes = pattern(info, i);
      for (const GlobalTensor& part : parts)
        fill_from_box(part, whole_box(part.global_shape), info.dtype, bytes);
      EXPECT_FALSE(
          std::ranges::any_of(fetches, [](const auto& fetch) { return fetch != nullptr; }));
      const std::lock_guard lock(mutex);
      expected[info.name] = info.global_shape.count();
      for (const GlobalTensor& part : parts) {
        for (const ParamBox& box : part.boxes) elements[info.name] += box.rows * box.columns;
      }
    }
    Communicator& world = *rank.ranks().world;
    GatheredTensors gathered(std::move(tensors), world, rank.context());
    if (world.rank() > 0) return gathered.serve();
    for (int i = 0; i < size; ++i) {
      Bytes found;
      gathered.visit(i, [&](std::span<const std::byte> piece) {
        found.insert(found.end(), piece.begin(), piece.end());
      });
      EXPECT_TRUE(found == pattern(gathered.info(i), i)) << label << ": " << gathered.info(i).name;
    }
  });
  // Nothing comes twice.
  EXPECT_EQ(elements, expected) << label;
}

TEST(GatheredTensors, AreWholeInEveryLayout) {
  for (const bool bf16 : {false, true}) {
    for (const std::int64_t tensor : {1, 2, 4}) {
      for (const std::int64_t data : {1, 2, 3}) {
        for (const bool sharded : {false, true}) {
          if (sharded && data == 1) continue;
          const Layout layout{.tensor = tensor, .data = data, .sharded = sharded};
          // Buckets of blocks: shards begin and end amid parameters and rows.
          expect_gathered(resolved(layout, sharded ? 5000 : 0, bf16), 49);
        }
      }
    }
  }
}

TEST(GatheredTensors, AreWholeInEveryStage) {
  for (const bool bf16 : {false, true}) {
    for (const std::int64_t bucket_size : {0, 5000}) {
      for (const Layout& layout :
           {Layout{.data = 2, .zero = 2}, Layout{.data = 2, .zero = 3},
            Layout{.data = 3, .zero = 3}, Layout{.data = 2, .zero = 3, .stays_below = 96},
            Layout{.data = 2, .zero = 3, .stays_below = 1 << 20},
            Layout{.tensor = 2, .data = 2, .sequence = true, .zero = 3},
            Layout{.data = 4, .zero = 1, .copies = 2}, Layout{.data = 4, .zero = 3, .copies = 2},
            Layout{.tensor = 2, .data = 2, .zero = 3, .copies = 2}}) {
        expect_gathered(resolved(layout, bucket_size, bf16), 49);
      }
    }
  }
}

// Keys and values of one group on two and on four ranks.
TEST(GatheredTensors, OfRowsOfSeveralRanksComeOnce) {
  for (const std::int64_t tensor : {2, 4}) {
    for (const std::int64_t stage : {0, 1, 3}) {
      TrainConfig c =
          resolved({.tensor = tensor, .data = 2, .zero = stage}, stage == 1 ? 5000 : 0, true);
      c.model.group_query_attention = true;
      c.model.num_query_groups = tensor / 2;
      resolve(c, false);
      expect_gathered(c, 49);
    }
  }
}

TEST(GatheredTensors, ComeInPiecesWhereTheyAreLarge) {
  for (const bool sharded : {false, true}) {
    const Layout layout{.tensor = 2, .data = 2, .sharded = sharded};
    expect_gathered(resolved(layout, 0, false), 70001);  // 8.5 MiB
  }
}

TEST(GatheredTensors, AreThoseOfOneRank) {
  const auto infos = [](const Layout& layout, bool with_optimizer) {
    std::vector<TensorSource::Info> found;
    const TrainConfig config = resolved(layout, 0, true);
    run_ranks(config, *make_model(config, 49), [&](Rank& rank) {
      const auto tensors = contributed_tensors(rank, {.with_optimizer = with_optimizer});
      if (rank.ranks().world->rank() != 1 && config.layout.world_size > 1) return;
      for (const auto& tensor : tensors) found.push_back(tensor.info);
    });
    return found;
  };
  for (const bool with_optimizer : {false, true}) {
    const auto expected = infos({}, with_optimizer);
    const auto found = infos({.tensor = 2, .data = 2, .sharded = true}, with_optimizer);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].name, expected[i].name);
      EXPECT_EQ(found[i].dtype, expected[i].dtype) << found[i].name;
      EXPECT_TRUE(found[i].global_shape == expected[i].global_shape) << found[i].name;
      EXPECT_EQ(found[i].name.starts_with(kOptimizerPrefix),
                i >= found.size() / (with_optimizer ? 4 : 1));
    }
  }
}

// A disk that is full while the others send, or a rank that fails while it is waited for: nobody is
// left waiting, and the first failure comes out.
TEST(GatheredTensors, AFailureEndsAll) {
  const TrainConfig config = resolved({.tensor = 2, .data = 2, .sharded = true}, 0, false);
  const auto model = make_model(config, 49);
  EXPECT_THROW(run_ranks(config, *model,
                         [&](Rank& rank) {
                           Communicator& world = *rank.ranks().world;
                           GatheredTensors gathered(contributed_tensors(rank, {}), world,
                                                    rank.context());
                           if (world.rank() > 0) return gathered.serve();
                           for (int i = 0; i < gathered.size(); ++i) {
                             gathered.visit(i, [&](std::span<const std::byte> /*piece*/) {
                               if (i == 7) throw OutputError("the disk is full");
                             });
                           }
                         }),
               OutputError);
  EXPECT_THROW(run_ranks(config, *model,
                         [&](Rank& rank) {
                           Communicator& world = *rank.ranks().world;
                           GatheredTensors gathered(contributed_tensors(rank, {}), world,
                                                    rank.context());
                           if (world.rank() == 2) throw IoError("it cannot be read");
                           if (world.rank() > 0) return gathered.serve();
                           for (int i = 0; i < gathered.size(); ++i) {
                             gathered.visit(i, [](std::span<const std::byte> /*piece*/) {});
                           }
                         }),
               IoError);
}

}  // namespace
}  // namespace phalanx
