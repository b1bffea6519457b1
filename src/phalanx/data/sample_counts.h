#pragma once
// How many samples a run asks of each split. In Megatron's order these numbers decide the shuffle,
// so a checkpoint records them.

#include <cstdint>
#include <optional>

#include "phalanx/data/split.h"

namespace phalanx {

struct SampleCounts {
  std::int64_t train = 0;
  std::int64_t valid = 0;
  std::int64_t test = 0;

  std::int64_t of(SplitKind kind) const;
  friend bool operator==(const SampleCounts&, const SampleCounts&) = default;
};

struct SampleRequest {
  std::int64_t train_iters = 0;
  std::int64_t global_batch = 0;
  // None: evaluation only after training.
  std::optional<std::int64_t> eval_interval = std::nullopt;
  std::int64_t eval_iters = 0;
  // --train-samples; otherwise train_iters * global_batch.
  std::optional<std::int64_t> train_samples = std::nullopt;
};

// ConfigError beyond 64 bits.
std::int64_t samples_of(std::int64_t batches, std::int64_t batch);

// train = iterations * batch; valid = (iterations / interval + 1) * eval_iters * batch; test =
// eval_iters * batch. ConfigError for a negative number, an interval below 1, or counts beyond 64
// bits.
SampleCounts requested_samples(const SampleRequest& request);

}  // namespace phalanx
