#pragma once
// For tests of saving and loading: configurations of a tiny model, and tensors whose bytes tell
// every element and tensor from its neighbours.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/mesh/global_tensor.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/saving/leading_save.h"
#include "phalanx/saving/part_contents.h"
#include "phalanx/train/test_support.h"

namespace phalanx::testing_support {

inline TrainConfig resolved(const Layout& layout, bool bf16) {
  TrainConfig c =
      with_flags({},
                 "--num-layers 2 --hidden-size 32 --num-attention-heads 4 "
                 "--max-position-embeddings 24 --seq-length 24 --make-vocab-size-divisible-by 32 "
                 "--micro-batch-size 1 --threads-per-rank 1");
  c.model.bf16 = bf16;
  c = with_layout(c, layout);
  // Buckets of blocks: shards begin and end amid parameters and rows.
  c.layout.ddp_bucket_size = 5000;
  resolve(c, false);
  return c;
}

// The bytes of a global tensor, all finite.
inline std::vector<std::byte> pattern(std::string_view name, DType dtype, const Shape& shape) {
  const auto count = static_cast<std::size_t>(shape.count());
  std::vector<float> values(count);
  std::size_t seed = 0;
  for (const char c : name) seed = seed * 31 + static_cast<unsigned char>(c);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 40503U + seed) % 1'000'003) / 7.0F;
  }
  std::vector<std::byte> bytes(count * static_cast<std::size_t>(size_of(dtype)));
  convert_elements(DType::kF32, std::as_bytes(std::span(values)).data(), dtype, bytes.data(),
                   shape.count());
  return bytes;
}

// What else the leader of a save does.
struct LeaderHooks {
  Retention retention = {};
  std::function<bool()> holds_directory = nullptr;
  std::function<void(LeadingSave&)> after_verdict = nullptr;
};

// By all ranks at the same time: each writes its part, and the verdict is the same for all.
inline SaveVerdict save_in_parts(Rank& rank, const BackgroundSaving& saving,
                                 const std::filesystem::path& save, const std::string& epoch,
                                 const Manifest& manifest, bool with_optimizer = true,
                                 const LeaderHooks& hooks = {}) {
  const int number = rank.ranks().world->rank();
  const auto tiles = saved_tiles(rank, {.with_optimizer = with_optimizer});
  RankSave own(
      {.rank = number,
       .directory = save,
       .epoch = epoch,
       .pieces = part_pieces(rank, tiles),
       .snapshot = std::make_shared<TileSnapshot>(
           rank, tiles, Tensor{}, TileSnapshot::Waiting{.stalled_after = saving.stalled_after})},
      saving);
  std::optional<LeadingSave> leading;
  if (number == 0) {
    leading.emplace(
        LeadingSave::Task{.options = {.directory = save,
                                      .retention = hooks.retention,
                                      .holds_directory = hooks.holds_directory},
                          .manifest = manifest,
                          .tensors = tensors_in_parts(rank, {.with_optimizer = with_optimizer}),
                          .epoch = epoch,
                          .ranks = rank.ranks().world->size()},
        saving);
  }
  const SaveVerdict verdict = own.wait(leading ? &*leading : nullptr);
  if (leading && hooks.after_verdict) hooks.after_verdict(*leading);
  // No rank goes before all have heard it.
  rank.ranks().control->barrier(rank.host_context());
  return verdict;
}

}  // namespace phalanx::testing_support
