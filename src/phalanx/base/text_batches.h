#pragma once
// What a microbatch of text is made of, by family: the columns that data fills and models read.

#include <cstdint>

#include "phalanx/base/batch_schema.h"

namespace phalanx {

// GPT, of samples of `sequence` tokens: tokens, labels, loss_mask and position_ids, and the
// coordinates of the rows, sample, position and document (ops/rows.h). All have one extent, the
// sequence.
BatchSchema gpt_batch_schema(std::int64_t sequence);

// BERT: sample i64, loss_mask f32, and tokens, position_ids, types, labels, position and
// document, i32, all of one extent, s; is_random, i32, of one element. Rows of padding have
// document -1, which nobody sees, the others 0.
BatchSchema bert_batch_schema(std::int64_t sequence);

// T5: sample and decoder_sample, i64; loss_mask, f32; tokens, position_ids, position and
// document, i32, of the encoder's length; decoder_tokens, decoder_position_ids, labels,
// decoder_position and decoder_document, i32, of the decoder's, as are decoder_sample and
// loss_mask. Rows of padding have document -1, which nobody sees, the others 0.
BatchSchema t5_batch_schema(std::int64_t sequence, std::int64_t decoder_sequence);

}  // namespace phalanx
