#pragma once
// The columns of a GPT's batch, and the tensors of one on the device.

#include <cstdint>
#include <span>

#include "phalanx/base/batch_schema.h"
#include "phalanx/nn/pass.h"

namespace phalanx {

// Of samples of `sequence` tokens: tokens, labels, loss_mask and position_ids, and the coordinates
// of the rows, sample, position and document (ops/rows.h). All have one extent, the sequence.
BatchSchema gpt_batch_schema(std::int64_t sequence);

// `columns` are the schema's, in its order, each [s, b].
nn::Batch gpt_batch(const BatchSchema& schema, std::span<const Tensor> columns);

}  // namespace phalanx
