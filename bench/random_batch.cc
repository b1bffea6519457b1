#include "random_batch.h"

#include "phalanx/data/gpt_columns.h"
#include "phalanx/model/gpt_batch.h"

namespace phalanx::bench {
namespace {

// The token at a place of an endless stream: SplitMix64's output function (Steele, Lea and Flood
// 2014).
std::int32_t random_token(std::int64_t sample, std::int64_t position, std::int64_t vocabulary) {
  auto x = static_cast<std::uint64_t>(sample) << 20 ^ static_cast<std::uint64_t>(position);
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27) * 0x94d049bb133111ebU;
  return static_cast<std::int32_t>((x ^ x >> 31) % static_cast<std::uint64_t>(vocabulary));
}

}  // namespace

HostBatch random_batch(std::int64_t first_sample, std::int64_t samples, std::int64_t sequence,
                       std::int64_t vocabulary) {
  HostBatch batch(gpt_batch_schema(sequence), samples);
  const GptColumns columns(batch);
  for (std::int64_t position = 0; position < sequence; ++position) {
    for (std::int64_t i = 0; i < samples; ++i) {
      const auto row = static_cast<std::size_t>(position * samples + i);
      const std::int64_t sample = first_sample + i;
      columns.tokens[row] = random_token(sample, position, vocabulary);
      columns.labels[row] = random_token(sample, position + 1, vocabulary);
      columns.loss_mask[row] = 1.0F;
      columns.position_ids[row] = static_cast<std::int32_t>(position);
      columns.sample[row] = sample;
      columns.position[row] = static_cast<std::int32_t>(position);
    }
  }
  return batch;
}

}  // namespace phalanx::bench
