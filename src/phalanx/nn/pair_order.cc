#include "phalanx/nn/pair_order.h"

#include "phalanx/ops/elementwise.h"
#include "phalanx/ops/permute.h"

namespace phalanx::nn {
namespace {

// How many rows each expert has with its padding, of ranks with so many tokens; 0: there is none.
std::int64_t padded_rows(const ExpertSettings& experts, std::int64_t ranks, std::int64_t tokens) {
  if (!experts.pad_to_capacity) return 0;
  return ranks *
         ops::expert_capacity(tokens, experts.chosen, experts.experts, experts.capacity_factor);
}

}  // namespace

PairOrder::PairOrder(SavedSlots& slots, const ExpertSettings& experts, const Settings& settings)
    : experts_(experts), settings_(settings) {
  const auto add = [&](const std::string& what, LastReader last,
                       std::function<Shape(std::int64_t tokens)> shape) {
    return slots.add({.name = what,
                      .dtype = DType::kI32,
                      .born = Born::kForward,
                      .last_reader = last,
                      .shape = [shape = std::move(shape)](
                                   const BatchShape& batch) { return shape(batch.stream_rows()); },
                      .is_kept = settings.is_kept});
  };
  offsets_ = add("offsets of experts", settings.last,
                 [n = settings.experts](std::int64_t) { return Shape{n + 1}; });
  pair_of_row_ = add("pair of row", settings.last, [experts, settings](std::int64_t tokens) {
    const std::int64_t padded = padded_rows(experts, settings.ranks, tokens);
    return Shape{padded > 0 ? settings.experts * padded : settings.ranks * tokens * experts.chosen};
  });
  row_of_pair_ = add("row of pair", LastReader::kInputGradient,
                     [ranks = settings.ranks, k = experts.chosen](std::int64_t tokens) {
                       return Shape{ranks * tokens, k};
                     });
}

void PairOrder::sort(Pass& pass, const Tensor& chosen, const Saved& saved) const {
  ops::sort_pairs(pass.ops,
                  {.offsets = saved[offsets_],
                   .pair_of_row = saved[pair_of_row_],
                   .row_of_pair = saved[row_of_pair_],
                   .chosen = chosen,
                   .first = settings_.first,
                   .experts = experts_.experts,
                   .padded = padded_rows(experts_, settings_.ranks, pass.shape.stream_rows())});
}

void PairOrder::gather(Pass& pass, const Tensor& rows, const Tensor& tokens,
                       const Saved& saved) const {
  if (experts_.pad_to_capacity) ops::fill(pass.ops, {.x = rows, .value = 0.0});
  ops::permute_rows(pass.ops, {.to = rows,
                               .from = tokens,
                               .pair_of_row = saved[pair_of_row_].slice(0, 0, rows.shape[0]),
                               .probabilities = {},
                               .k = experts_.chosen});
}

void PairOrder::gather_numbers(Pass& pass, const Tensor& numbers, const Tensor& pairs,
                               const Saved& saved) const {
  ops::gather_elements(
      pass.ops,
      {.to = numbers, .from = pairs, .index = saved[pair_of_row_].slice(0, 0, numbers.shape[0])});
}

void PairOrder::add_up(Pass& pass, const Tensor& y, const Tensor& rows, const Saved& saved) const {
  ops::unpermute_rows(
      pass.ops, {.y = y, .rows = rows, .row_of_pair = saved[row_of_pair_], .probabilities = {}});
}

void PairOrder::scatter_numbers(Pass& pass, const Tensor& pairs, const Tensor& numbers,
                                const Saved& saved) const {
  ops::gather_elements(pass.ops, {.to = pairs, .from = numbers, .index = saved[row_of_pair_]});
}

}  // namespace phalanx::nn
