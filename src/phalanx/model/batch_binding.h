#pragma once
// Makes what passes are given from the tensors of a microbatch's columns. All model families use
// the same names for the coordinates of rows: "sample", "position" and "document"; those of a
// second sequence begin with "decoder_".

#include <vector>

#include "phalanx/base/batch_schema.h"
#include "phalanx/nn/pass.h"

namespace phalanx {

// Whether the schema has a second sequence.
bool has_decoder_rows(const BatchSchema& schema);

// The shapes of a microbatch of the schema: as many rows as its columns "sample" have, and on all
// ranks of a context together as many as "position".
nn::BatchShapes batch_shapes(const BatchSchema& schema, std::int64_t micro_batch,
                             std::int64_t sequence_shards);

// `columns` are the schema's, in its order, each [extents..., b]; their coordinates keep to the
// patterns. Where the columns "position" and "document" have the rows of several ranks of a
// context, this rank is number `context_rank` of them.
nn::Batch bind_batch(const BatchSchema& schema, std::vector<Tensor> columns,
                     const nn::RowPatterns& patterns = {}, int context_rank = 0);

}  // namespace phalanx
