#include "phalanx/ops/fault.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

// The row of `id` in a table of `rows` rows from first_row on, or -1 for an id outside.
std::int64_t table_row(std::int64_t id, std::int64_t first_row, std::int64_t rows) {
  return id >= first_row && id < first_row + rows ? id - first_row : -1;
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::EmbeddingForward& op, const Tensor& /*scratch*/) {
  const Array table = read(op.table);
  const Integers ids = read_integers(op.ids);
  Array y(op.y.shape);
  for (std::int64_t s = 0; s < y.shape[0]; ++s) {
    for (std::int64_t b = 0; b < y.shape[1]; ++b) {
      const std::int64_t row = table_row(ids(s, b), op.first_row, table.shape[0]);
      if (row < 0) continue;
      for (std::int64_t i = 0; i < y.shape[2]; ++i) y(s, b, i) = table(row, i);
    }
  }
  write(op.y, y);
}

void execute(RefDevice& /*device*/, const ops::AddPositions& op, const Tensor& /*scratch*/) {
  const Array x = read(op.x);
  const Array table = read(op.table);
  const Integers ids = read_integers(op.ids);
  const Coordinates rows(op.rows);
  Array out(x.shape);
  for (std::int64_t s = 0; s < x.shape[0]; ++s) {
    for (std::int64_t b = 0; b < x.shape[1]; ++b) {
      ops::expect_in_range<ops::AddPositions>(s * x.shape[1] + b, ids(s, b), table.shape[0]);
      for (std::int64_t i = 0; i < x.shape[2]; ++i) {
        const double sum = round_to(op.out.dtype, x(s, b, i) + table(ids(s, b), i));
        out(s, b, i) = sum;
        if (op.dropout.probability > 0.0) {
          out(s, b, i) *= dropout_multiplier(op.dropout, op.dropout.site, rows.sample(s, b),
                                             rows.position(s, b), i);
        }
      }
    }
  }
  write(op.out, out);
}

void execute(RefDevice& /*device*/, const ops::EmbeddingGradient& op, const Tensor& /*scratch*/) {
  const Integers ids = read_integers(op.ids);
  const Array dy = read(op.dy);
  Array dtable = read(op.dtable);
  for (std::int64_t s = 0; s < dy.shape[0]; ++s) {
    for (std::int64_t b = 0; b < dy.shape[1]; ++b) {
      const std::int64_t row = table_row(ids(s, b), op.first_row, dtable.shape[0]);
      if (row < 0) continue;
      for (std::int64_t i = 0; i < dy.shape[2]; ++i) dtable(row, i) += dy(s, b, i);
    }
  }
  write(op.dtable, dtable);
}

void execute(RefDevice& /*device*/, const ops::SparseEmbeddingGradient& op,
             const Tensor& /*scratch*/) {
  const Integers ids = read_integers(op.ids);
  const Array dy = read(op.dy);
  Integers slots = read_integers(op.slots);
  Integers rows = read_integers(op.rows);
  Integers count = read_integers(op.count);
  Array values = read(op.values);
  for (std::int64_t s = 0; s < dy.shape[0]; ++s) {
    for (std::int64_t b = 0; b < dy.shape[1]; ++b) {
      const std::int64_t row = table_row(ids(s, b), op.first_row, slots.shape[0]);
      if (row < 0) continue;
      if (slots(row) < 0) {
        PHALANX_CHECK(count(0) < rows.shape[0], "more than {} distinct rows", rows.shape[0]);
        slots(row) = count(0)++;
        rows(slots(row)) = row;
        for (std::int64_t i = 0; i < dy.shape[2]; ++i) values(slots(row), i) = 0.0;
      }
      for (std::int64_t i = 0; i < dy.shape[2]; ++i) values(slots(row), i) += dy(s, b, i);
    }
  }
  write_integers(op.slots, slots);
  write_integers(op.rows, rows);
  write_integers(op.count, count);
  write(op.values, values);
}

void execute(RefDevice& /*device*/, const ops::SparseEmbeddingJoin& op, const Tensor& /*scratch*/) {
  const Integers rows = read_integers(op.rows);
  const Array values = read(op.values);
  Integers slots = read_integers(op.slots);
  Integers count = read_integers(op.count);
  Array dtable = read(op.dtable);
  for (std::int64_t slot = 0; slot < count(0); ++slot) {
    for (std::int64_t i = 0; i < values.shape[1]; ++i) dtable(rows(slot), i) += values(slot, i);
    slots(rows(slot)) = -1;
  }
  count(0) = 0;
  write_integers(op.slots, slots);
  write_integers(op.count, count);
  write(op.dtable, dtable);
}

}  // namespace phalanx::ref
