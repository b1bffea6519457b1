#include "phalanx/nn/head_norm.h"

#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

Norm::Rows head_rows(std::int64_t heads_per_group, const TransformerConfig& config) {
  return {.width = config.head_size,
          .reduction = config.tensor.size > 1 ? GradientReduction::kSequencePartial
                                              : GradientReduction::kNone,
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
    : heads_per_group_(heads_per_group),
      norm_(table, owned, slots, name, config, head_rows(heads_per_group, config)) {}

Tensor HeadNorm::heads_at(const Tensor& heads, std::int64_t place) const {
  const Tensor one = heads.shape.rank() == 5 ? heads.select(3, place) : heads;
  const Shape& s = one.shape;
  PHALANX_CHECK(one.strides[1] == s[2] * one.strides[2] && one.strides[0] == s[1] * one.strides[1],
                "the heads {} are not evenly apart", heads.shape.to_string());
  Tensor rows = one;
  rows.shape = {s[0] * s[1] * s[2], s[3]};
  rows.strides = {one.strides[2], one.strides[3]};
  return rows;
}

Norm::Statistics HeadNorm::statistics_at(const Saved& saved, std::int64_t place) const {
  const auto [mean, rstd] = norm_.statistics(saved);
  return {.mean = mean ? mean.select(0, place) : Tensor{}, .rstd = rstd.select(0, place)};
}

void HeadNorm::forward(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
  for (std::int64_t place = 0; place < heads_per_group_; ++place) {
    norm_.forward(pass, heads_at(y, place), heads_at(x, place), statistics_at(saved, place));
  }
}

void HeadNorm::apply(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
  for (std::int64_t place = 0; place < heads_per_group_; ++place) {
    norm_.apply(pass, heads_at(y, place), heads_at(x, place), statistics_at(saved, place));
  }
}

void HeadNorm::backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                              const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Norm::Sums sums = norm_.sums(saved);
  const auto scratch_as = [&](const Tensor& sum) {
    return sum ? pass.scratch(sum.dtype, sum.shape) : Tensor{};
  };
  // The first place overwrites the sums, the others add to them in order.
  const Norm::Sums sums_of_place{scratch_as(sums.dweight), scratch_as(sums.dbias)};
  for (std::int64_t place = 0; place < heads_per_group_; ++place) {
    norm_.backward_input(pass, heads_at(dx, place), heads_at(dy, place), heads_at(x, place), {},
                         statistics_at(saved, place), place == 0 ? sums : sums_of_place);
    if (place == 0) continue;
    ops::accumulate(pass.ops, {.destination = sums.dweight, .source = sums_of_place.dweight});
    if (!sums.dbias) continue;
    ops::accumulate(pass.ops, {.destination = sums.dbias, .source = sums_of_place.dbias});
  }
}

}  // namespace phalanx::nn
