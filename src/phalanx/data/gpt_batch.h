#pragma once
// One microbatch of a GPT on the host. Every vector has s * b elements in [s, b] order: row r is
// position r / b of batch element r % b.

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/data/gpt_dataset.h"
#include "phalanx/data/sample_source.h"

namespace phalanx {

struct GptBatchOptions {
  // The end-of-document id; only the three options below read it.
  std::int32_t eod = -1;
  // No loss where the *input* token is end-of-document.
  bool eod_mask_loss = false;
  // Positions restart at 0 after an end-of-document token.
  bool reset_position_ids = false;
  // Rows cannot see rows of other documents; end-of-document belongs to the document before it.
  bool reset_attention_mask = false;
};

struct GptBatch {
  std::int64_t sequence_length = 0;  // s
  std::int64_t batch_size = 0;       // b

  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;
  std::vector<float> loss_mask;            // 1, or 0 for padding and masked end-of-document
  std::vector<std::int32_t> position_ids;  // what the position embedding reads

  // Row coordinates: attention masks and dropout are functions of them.
  std::vector<std::int64_t> sample;    // number in the consumed stream
  std::vector<std::int32_t> position;  // place in the sequence, 0 to s - 1
  std::vector<std::int32_t>
      document;  // number within the sequence; all 0 without reset_attention_mask
};

// Fetches the samples into `batch`, whose memory is used again. DataError as GptDataset::sample;
// ConfigError where an option needs an end-of-document id and there is none.
void make_gpt_batch(const GptDataset& dataset, std::span<const SampleId> samples,
                    const GptBatchOptions& options, GptBatch& batch);

// A batch of the one sequence `sample`: s inputs, and behind the last its label. Where only the
// first `real` are not padding, rows without a label count for nothing. ConfigError as above.
void make_gpt_batch(std::span<const std::int32_t> sample, std::int64_t real,
                    const GptBatchOptions& options, GptBatch& batch);

}  // namespace phalanx
