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

// The batch of one of `ranks` context-parallel ranks, among which every sample of `whole` is cut
// (mesh/context_cut.h). Columns of S rows have the S / ranks rows of the rank. "position" and
// "document" keep all S, in rank order: rank 0's rows, rank 1's rows, ... So rank r's own are the
// r-th part, and those of the keys of rank s are the s-th. PHALANX_CHECK: samples are one sequence
// (GPT), whose length divides by `ranks`. Of one rank the schema is `whole`.
BatchSchema context_schema(const BatchSchema& whole, int ranks);
// Whether a column has the rows of all context-parallel ranks.
bool has_all_context_rows(const BatchColumn& column);

}  // namespace phalanx
