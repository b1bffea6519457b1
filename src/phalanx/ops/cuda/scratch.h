#pragma once
// The scratch memory of kernels, in bytes, and how it is divided: of shapes alone. The launches
// take it, workspace_sizes.h plans it.

#include <cstdint>

namespace phalanx::cuda {

// Sums over rows: rows whose sum is one part, and how many parts that makes.
std::int64_t rows_of_part(std::int64_t rows);
std::int64_t parts_of(std::int64_t rows);
std::int64_t column_sums_scratch(std::int64_t rows, std::int64_t columns);
// `rows` counts a row of several places as many.
std::int64_t norm_backward_scratch(std::int64_t rows, std::int64_t columns);

// Scratch of linear_forward: the library's workspace, and behind it a bias in f32 where it has
// fewer digits than y. The other two products need the workspace alone.
std::int64_t forward_scratch(std::int64_t workspace_bytes, std::int64_t n, bool wide_bias);

// Products of groups of rows: the tiles of `side` rows, each of one group (groups-inl.h), and the
// memory that tiles of 64 take. Products on tensor cores find theirs without it.
std::int64_t most_row_tiles(std::int64_t rows, std::int64_t groups, std::int64_t side);
std::int64_t row_tiles_scratch_bytes(std::int64_t rows, std::int64_t groups);

// Gradients of embeddings sort the ids of so many rows: keys lie in one of two places.
std::int64_t sort_key_bytes(std::int64_t rows);
std::int64_t embedding_gradient_scratch_bytes(std::int64_t rows);
std::int64_t sparse_embedding_gradient_scratch_bytes(std::int64_t rows);

// A relative bias has a value for each difference of two places.
std::int64_t place_differences(std::int64_t queries, std::int64_t keys);
std::int64_t relative_bias_forward_scratch_bytes(std::int64_t heads, std::int64_t queries,
                                                 std::int64_t keys);
std::int64_t relative_bias_backward_scratch_bytes(std::int64_t heads, std::int64_t queries,
                                                  std::int64_t keys);

// The sums over keys of unfused attention's probabilities and their gradients, in f32.
std::int64_t unfused_attention_backward_scratch_bytes(std::int64_t batch, std::int64_t heads,
                                                      std::int64_t queries);

// Of a router: exponentials of all logits and a factor for every row; what balance scores of a row
// are divided by, and their sums over parts of a sequence's rows.
std::int64_t sinkhorn_scratch_bytes(std::int64_t rows, std::int64_t experts);
std::int64_t balance_scratch_bytes(std::int64_t rows, std::int64_t sequences, std::int64_t experts);

}  // namespace phalanx::cuda
