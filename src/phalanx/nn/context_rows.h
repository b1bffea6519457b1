#pragma once
// The order of rows that come from several ranks of a context. A group of `parts` neighbours has
// parts * n rows: in rank order those of its first rank come first; in sample order they have the
// order of their places in the sample. Where each rank's rows are two chunks of the sample, sample
// order is the first chunks from the first rank to the last, then the second chunks from the last
// to the first. Where rows are anywhere, they stay in rank order.

#include <vector>

#include "phalanx/nn/pass.h"

namespace phalanx::nn {

// Neighbouring rows: `count` rows from `first` on of rank `part` are those from `place` on in
// sample order.
struct RowRun {
  int part = 0;
  std::int64_t first = 0;
  std::int64_t place = 0;
  std::int64_t count = 0;
};

// All rows of `parts` neighbours with `rows` rows each.
std::vector<RowRun> row_runs(int parts, std::int64_t rows, bool in_chunks);

// Copies of all elements, rounded where the type narrows. `ranks` is [parts * n, ...], in rank
// order, `sample` the same in sample order.
void to_sample_order(Pass& pass, const Tensor& sample, const Tensor& ranks, int parts,
                     bool in_chunks);
void to_rank_order(Pass& pass, const Tensor& ranks, const Tensor& sample, int parts,
                   bool in_chunks);

// Position and document of all rows of the samples, [S, b], the rows of each group of `parts`
// neighbours in sample order: the batch's own, or scratch.
RowCoordinates rows_of_groups(Pass& pass, int parts, bool in_chunks);

// The coordinates of all rows of this rank's group of neighbours, from rows_of_groups().
RowCoordinates rows_of_own_group(Pass& pass, const RowCoordinates& groups, int parts);

// The position and document of rows [begin, begin + count).
RowCoordinates slice_places(const RowCoordinates& rows, std::int64_t begin, std::int64_t count);

}  // namespace phalanx::nn
