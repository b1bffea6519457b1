#include "phalanx/nn/rotary.h"

namespace phalanx::nn {
namespace {

ConstantSpec table_of(const TransformerConfig& config) {
  PHALANX_CHECK(config.max_positions > 0, "rotary positions of the {} have no bound", config.stack);
  return {.name = config.stack + " rotary table",
          .dtype = full_precision(config.dtype),
          .shape = {config.max_positions, config.rotary->dimensions},
          .fill = [rotary = *config.rotary](Context& context, const Tensor& table) {
            ops::rotary_table(context, {.table = table, .rotary = rotary});
          }};
}

}  // namespace

RotaryPositions::RotaryPositions(ParamTable& table, const TransformerConfig& config)
    : interleaved_(config.rotary->interleaved),
      column_(config.position_column),
      table_(table.add_constant(table_of(config))) {}

void RotaryPositions::rotate(Pass& pass, const Tensor& heads, bool inverse) const {
  ops::rotate(pass.ops, {.y = heads,
                         .x = heads,
                         .position = pass.batch[column_],
                         .table = pass.constants[static_cast<std::size_t>(table_)],
                         .interleaved = interleaved_,
                         .inverse = inverse});
}

}  // namespace phalanx::nn
