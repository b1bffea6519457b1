#pragma once
// The columns of a microbatch of text, by family: data fills them and models read them.

#include <cstdint>

#include "phalanx/base/batch_schema.h"

namespace phalanx {

// GPT with samples of `sequence` tokens: tokens, labels, loss_mask and position_ids, and the
// coordinates of rows: sample, position and document (ops/rows.h). Every extent is `sequence`.
BatchSchema gpt_batch_schema(std::int64_t sequence);

// BERT: sample i64, loss_mask f32, and tokens, position_ids, types, labels, position and document,
// i32, of extent `sequence`; is_random, i32, of one element. Rows of padding have document -1,
// which no row sees; others have 0.
BatchSchema bert_batch_schema(std::int64_t sequence);

// T5: sample and decoder_sample, i64; loss_mask, f32; all others i32. tokens, sample, position_ids,
// position and document have the encoder's length; the decoder_ columns, labels and loss_mask have
// the decoder's. Rows of padding have document -1, which no row sees; others have 0.
BatchSchema t5_batch_schema(std::int64_t sequence, std::int64_t decoder_sequence);

}  // namespace phalanx
