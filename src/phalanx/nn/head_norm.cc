#include "phalanx/nn/head_norm.h"

namespace phalanx::nn {
namespace {

Norm::Rows head_rows(std::int64_t heads_per_group, const TransformerConfig& config) {
  return {.width = config.head_size,
          .summed_over = config.tensor.size > 1 ? kRowAxes.with(Axis::kTensor) : kRowAxes,
          .statistics =
              [heads_per_group, groups = config.local_query_groups()](const BatchShape& batch) {
                return Shape{heads_per_group, batch.rows() * groups};
              },
          .statistics_last_reader = LastReader::kInputGradient};
}

}  // namespace

HeadNorm::HeadNorm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                   const std::string& name, std::int64_t heads_per_group,
                   const TransformerConfig& config)
    : norm_(table, owned, slots, name, config, head_rows(heads_per_group, config)) {}

Tensor HeadNorm::rows_of(const Tensor& heads) const {
  const Shape& s = heads.shape;
  PHALANX_CHECK(
      heads.strides[1] == s[2] * heads.strides[2] && heads.strides[0] == s[1] * heads.strides[1],
      "the heads {} are not evenly apart", s.to_string());
  Tensor rows = heads;
  const std::int64_t count = s[0] * s[1] * s[2];
  if (s.rank() == 5) {
    rows.shape = {count, s[3], s[4]};
    rows.strides = {heads.strides[2], heads.strides[3], heads.strides[4]};
  } else {
    rows.shape = {count, s[3]};
    rows.strides = {heads.strides[2], heads.strides[3]};
  }
  return rows;
}

// Of [places, rows]; without places in the operands, of rows.
Norm::Statistics HeadNorm::statistics_of(const Tensor& rows, const Saved& saved) const {
  const Norm::Statistics all = norm_.statistics(saved);
  if (rows.shape.rank() == 3) return all;
  return {.mean = all.mean ? all.mean.select(0, 0) : Tensor{}, .rstd = all.rstd.select(0, 0)};
}

void HeadNorm::forward(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
  const Tensor rows = rows_of(x);
  norm_.forward(pass, rows_of(y), rows, statistics_of(rows, saved));
}

void HeadNorm::apply(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
  const Tensor rows = rows_of(x);
  norm_.apply(pass, rows_of(y), rows, statistics_of(rows, saved));
}

void HeadNorm::backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                              const Saved& saved) const {
  const Tensor rows = rows_of(x);
  norm_.backward_input(pass, rows_of(dx), rows_of(dy), rows, {}, statistics_of(rows, saved),
                       norm_.sums(saved));
}

}  // namespace phalanx::nn
