#pragma once
// One rank's part of a GPT that keeps the keys and values of several sequences.

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/inference/inference_model.h"
#include "phalanx/inference/sequence_model.h"
#include "phalanx/model/gpt.h"

namespace phalanx {

class CachedRank {
 public:
  using Next = SequenceModel::Next;

  // `group` is null where there is one rank.
  CachedRank(const GptConfig& config, std::int64_t capacity, int sequences,
             InferenceResources resources, Communicator* group);

  InferenceModel& model() { return model_; }
  std::int64_t cache_bytes() const { return cache_bytes_; }
  int sequences() const { return static_cast<int>(caches_.size()); }
  std::int64_t capacity() const { return rows_.position.shape[0]; }

  // Tokens of one sequence from position `begin` on. `logits` is empty where they are not wanted,
  // as on all ranks but the first.
  void read(int sequence, std::span<const std::int32_t> tokens, std::int64_t begin,
            std::span<float> logits);
  // One token of each of some sequences, at these positions.
  void step(std::span<const Next> next, std::span<const std::int64_t> positions,
            std::span<float> logits);
  // The first positions of a sequence become those of another.
  void copy(int from, int to, std::int64_t length);

 private:
  void pass(std::span<const std::int32_t> tokens, const Shape& extents, const RowCoordinates& rows,
            std::span<nn::KeyValueCache* const> caches, std::span<float> logits);

  InferenceModel model_;
  BatchSchema schema_;
  std::int64_t vocabulary_;
  std::vector<nn::KeyValueCache> caches_;
  std::int64_t cache_bytes_ = 0;
  RowCoordinates rows_;
};

// On the planning backend: the passes of reading texts of these lengths, and of steps of any number
// of sequences, where they take the most.
void rehearse(CachedRank& rank, std::span<const std::int64_t> reads);

}  // namespace phalanx
