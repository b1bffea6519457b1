#include "phalanx/nn/context_rows.h"

#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {

std::vector<RowRun> row_runs(int parts, std::int64_t rows, bool in_chunks) {
  std::vector<RowRun> runs;
  for (int part = 0; part < parts; ++part) {
    if (!in_chunks || parts == 1) {
      runs.push_back({.part = part, .place = part * rows, .count = rows});
      continue;
    }
    PHALANX_CHECK(rows % 2 == 0, "{} rows are not two chunks", rows);
    const std::int64_t chunk = rows / 2;
    const std::int64_t last = 2 * parts - 1;
    runs.push_back({.part = part, .place = part * chunk, .count = chunk});
    runs.push_back({.part = part, .first = chunk, .place = (last - part) * chunk, .count = chunk});
  }
  return runs;
}

void to_sample_order(Pass& pass, const Tensor& sample, const Tensor& ranks, int parts,
                     bool in_chunks) {
  const std::int64_t rows = ranks.shape[0] / parts;
  for (const RowRun& run : row_runs(parts, rows, in_chunks)) {
    ops::copy(pass.ops, {.destination = sample.slice(0, run.place, run.count),
                         .source = ranks.slice(0, run.part * rows + run.first, run.count)});
  }
}

void to_rank_order(Pass& pass, const Tensor& ranks, const Tensor& sample, int parts,
                   bool in_chunks) {
  const std::int64_t rows = ranks.shape[0] / parts;
  for (const RowRun& run : row_runs(parts, rows, in_chunks)) {
    ops::copy(pass.ops, {.destination = ranks.slice(0, run.part * rows + run.first, run.count),
                         .source = sample.slice(0, run.place, run.count)});
  }
}

RowCoordinates rows_of_groups(Pass& pass, int parts, bool in_chunks) {
  const RowCoordinates& all = pass.batch.all_rows;
  const Shape extents{pass.shape.whole_sequence(), pass.shape.micro_batch};
  PHALANX_CHECK(all.position && all.position.shape == extents,
                "the coordinates of the samples' rows on all ranks are {}, expected {}",
                all.position ? all.position.shape.to_string() : "absent", extents.to_string());
  if (parts == 1 || !in_chunks) return all;
  RowCoordinates sorted = {.sample = {},
                           .position = pass.scratch(DType::kI32, extents),
                           .document = pass.scratch(DType::kI32, extents)};
  sorted.pattern.one_document = all.pattern.one_document;
  const std::int64_t group = parts * pass.shape.sequence;
  for (std::int64_t begin = 0; begin < extents[0]; begin += group) {
    to_sample_order(pass, sorted.position.slice(0, begin, group),
                    all.position.slice(0, begin, group), parts, in_chunks);
    to_sample_order(pass, sorted.document.slice(0, begin, group),
                    all.document.slice(0, begin, group), parts, in_chunks);
  }
  return sorted;
}

RowCoordinates rows_of_own_group(Pass& pass, const RowCoordinates& groups, int parts) {
  if (parts == 1) return pass.rows();
  const std::int64_t rows = pass.shape.sequence;
  const std::int64_t group = pass.context.rank() / parts;
  RowCoordinates own = slice_places(groups, group * parts * rows, parts * rows);
  // All rows of a column are of one sample.
  own.sample = pass.scratch(DType::kI64, {parts * rows, pass.shape.micro_batch});
  for (int part = 0; part < parts; ++part) {
    ops::copy(pass.ops, {.destination = own.sample.slice(0, part * rows, rows),
                         .source = pass.rows().sample});
  }
  return own;
}

RowCoordinates slice_places(const RowCoordinates& rows, std::int64_t begin, std::int64_t count) {
  return {.sample = {},
          .position = rows.position.slice(0, begin, count),
          .document = rows.document.slice(0, begin, count),
          .pattern = {.one_document = rows.pattern.one_document}};
}

}  // namespace phalanx::nn
