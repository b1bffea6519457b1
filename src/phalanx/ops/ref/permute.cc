#include <algorithm>
#include <utility>
#include <vector>

#include "phalanx/ops/fault.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

// A pair's row, and its probability or 1.
struct PairRow {
  std::int64_t row;
  double p;
};

}  // namespace

void execute(RefDevice& /*device*/, const ops::SortPairs& op, const Tensor& /*scratch*/) {
  const Integers chosen = read_integers(op.chosen);
  const std::int64_t experts = op.offsets.shape[0] - 1;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;  // (expert from the first, pair)
  for (std::size_t pair = 0; pair < chosen.values.size(); ++pair) {
    if (chosen.values[pair] < 0) continue;
    const auto number = static_cast<std::int64_t>(pair);
    ops::expect_in_range<ops::SortPairs>(number, chosen.values[pair], op.all_experts());
    const std::int64_t expert = chosen.values[pair] - op.first;
    if (expert >= 0 && expert < experts) pairs.emplace_back(expert, number);
  }
  std::ranges::sort(pairs);
  Integers offsets(op.offsets.shape), pair_of_row(op.pair_of_row.shape);
  Integers row_of_pair(op.row_of_pair.shape);
  std::ranges::fill(pair_of_row.values, -1);
  std::ranges::fill(row_of_pair.values, -1);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts), 0);
  std::int64_t next = 0;
  for (const auto& [expert, pair] : pairs) {
    std::int64_t row = next++;
    if (op.padded > 0) {
      row = counts[static_cast<std::size_t>(expert)]++;
      if (row >= op.padded) continue;
      row += expert * op.padded;
    }
    pair_of_row(row) = pair;
    row_of_pair.values[static_cast<std::size_t>(pair)] = row;
    for (std::int64_t e = expert + 1; e <= experts; ++e) ++offsets(e);
  }
  for (std::int64_t e = 0; e <= experts && op.padded > 0; ++e) offsets(e) = e * op.padded;
  write_integers(op.offsets, offsets);
  write_integers(op.pair_of_row, pair_of_row);
  write_integers(op.row_of_pair, row_of_pair);
}

void execute(RefDevice& /*device*/, const ops::PermuteRows& op, const Tensor& /*scratch*/) {
  const Array from = read(op.from);
  const Array p = read(op.probabilities);
  const Integers pairs = read_integers(op.pair_of_row);
  for (std::int64_t r = 0; r < op.to.shape[0]; ++r) {
    const std::int64_t pair = pairs(r);
    if (pair < 0 || pair >= from.shape[0] * op.k) continue;
    Array row(Shape{from.shape[1]});
    for (std::int64_t i = 0; i < from.shape[1]; ++i) {
      row(i) = from(pair / op.k, i) *
               (op.probabilities ? p.values[static_cast<std::size_t>(pair)] : 1.0);
    }
    write(op.to.select(0, r), row);
  }
}

void execute(RefDevice& /*device*/, const ops::UnpermuteRows& op, const Tensor& /*scratch*/) {
  const Array rows = read(op.rows);
  const Array p = read(op.probabilities);
  const Integers row_of_pair = read_integers(op.row_of_pair);
  Array y(op.y.shape);
  for (std::int64_t t = 0; t < y.shape[0]; ++t) {
    std::vector<PairRow> pairs;
    for (std::int64_t i = 0; i < row_of_pair.shape[1]; ++i) {
      const std::int64_t row = row_of_pair(t, i);
      if (row >= 0 && row < rows.shape[0]) pairs.push_back({row, op.probabilities ? p(t, i) : 1.0});
    }
    std::ranges::sort(pairs, {}, &PairRow::row);
    for (const PairRow& pair : pairs) {
      for (std::int64_t i = 0; i < y.shape[1]; ++i) y(t, i) += pair.p * rows(pair.row, i);
    }
  }
  write(op.y, y);
}

void execute(RefDevice& /*device*/, const ops::PairDots& op, const Tensor& /*scratch*/) {
  const Array rows = read(op.rows);
  const Array x = read(op.x);
  const Integers row_of_pair = read_integers(op.row_of_pair);
  Array dots(op.dots.shape);
  for (std::int64_t t = 0; t < x.shape[0]; ++t) {
    for (std::int64_t i = 0; i < dots.shape[1]; ++i) {
      const std::int64_t row = row_of_pair(t, i);
      if (row < 0 || row >= rows.shape[0]) continue;
      for (std::int64_t j = 0; j < x.shape[1]; ++j) dots(t, i) += rows(row, j) * x(t, j);
    }
  }
  write(op.dots, dots);
}

void execute(RefDevice& /*device*/, const ops::GatherElements& op, const Tensor& /*scratch*/) {
  const Array from = read(op.from);
  const Integers index = read_integers(op.index);
  Array to(op.to.shape);
  for (std::size_t i = 0; i < to.values.size(); ++i) {
    const std::int64_t at = index.values[i];
    if (at >= 0 && at < from.shape.count())
      to.values[i] = from.values[static_cast<std::size_t>(at)];
  }
  write(op.to, to);
}

}  // namespace phalanx::ref
