#include "phalanx/model/chunk.h"

#include <algorithm>

namespace phalanx {
namespace {

using nn::LastReader;
using nn::PassKind;

PassKind pass_of(LastReader reader) {
  switch (reader) {
    case LastReader::kForward:
      return PassKind::kForward;
    case LastReader::kInputGradient:
      return PassKind::kBackwardInput;
    case LastReader::kWeightGradient:
      return PassKind::kBackwardWeight;
  }
  return PassKind::kForward;
}

std::span<const Tensor> part(std::span<const Tensor> blocks, std::size_t begin, std::size_t count) {
  return blocks.subspan(begin, count);
}

}  // namespace

Chunk::Chunk(std::vector<std::unique_ptr<nn::Unit>> units) : units_(std::move(units)) {
  PHALANX_CHECK(!units_.empty(), "a chunk needs a unit");
  std::size_t next = 0;
  std::size_t inputs = next;
  std::size_t input_gradients = next + units_.front()->inputs().size();
  next = input_gradients + units_.front()->inputs().size();
  for (const auto& unit : units_) {
    const std::size_t slots = next;
    const std::size_t outputs = slots + unit->saved_slots().size();
    const std::size_t output_gradients = outputs + unit->outputs().size();
    places_.push_back({inputs, input_gradients, slots, outputs, output_gradients});
    inputs = outputs;
    input_gradients = output_gradients;
    next = output_gradients + unit->outputs().size();
  }
  for (std::size_t u = 1; u < units_.size(); ++u) {
    PHALANX_CHECK(units_[u]->inputs().size() == units_[u - 1]->outputs().size(),
                  "{} does not fit behind {}", units_[u]->name(), units_[u - 1]->name());
  }
}

std::vector<SavedBlock> Chunk::saved_blocks(const nn::BatchShape& shape, bool forward_only) const {
  std::vector<SavedBlock> blocks;
  const int last_unit = num_units() - 1;
  // A stream between unit u - 1 and unit u, and its gradient; u runs from 0 (chunk input) to
  // num_units (chunk output).
  const auto add_streams = [&](const std::vector<nn::StreamSpec>& streams, int u) {
    const int producer = std::max(u - 1, 0);
    const int consumer = std::min(u, last_unit);
    const bool has_consumer = u <= last_unit;
    const LastReader reader = has_consumer && !forward_only
                                  ? units_[static_cast<std::size_t>(u)]->input_last_reader()
                                  : LastReader::kForward;
    for (const auto& stream : streams) {
      const Shape extents{shape.sequence, shape.micro_batch, stream.width};
      blocks.push_back({stream.name,
                        stream.dtype,
                        extents,
                        {PassKind::kForward, producer},
                        {pass_of(reader), consumer}});
    }
    for (const auto& stream : streams) {
      const Shape extents{forward_only ? 0 : shape.sequence, shape.micro_batch, stream.width};
      const PassKind pass = forward_only ? PassKind::kForward : PassKind::kBackwardInput;
      blocks.push_back({stream.name + " gradient",
                        stream.dtype,
                        extents,
                        {pass, forward_only ? producer : consumer},
                        {pass, forward_only ? consumer : producer}});
    }
  };
  add_streams(inputs(), 0);
  for (int u = 0; u <= last_unit; ++u) {
    const auto& unit = *units_[static_cast<std::size_t>(u)];
    for (const auto& slot : unit.saved_slots()) {
      Shape extents = slot.shape(shape);
      PassKind born =
          slot.born == nn::Born::kForward ? PassKind::kForward : PassKind::kBackwardInput;
      PassKind last = pass_of(slot.last_reader);
      if (forward_only) {
        if (born != PassKind::kForward) extents[0] = 0;
        born = PassKind::kForward;
        last = PassKind::kForward;
      }
      blocks.push_back({unit.name() + ": " + slot.name, slot.dtype, extents, {born, u}, {last, u}});
    }
    add_streams(unit.outputs(), u + 1);
  }
  return blocks;
}

void Chunk::forward_unit(nn::Pass& pass, std::span<const Tensor> blocks, nn::UnitHooks& hooks,
                         int microbatch, std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  const UnitBlocks& at = places_[u];
  hooks.before(unit, PassKind::kForward, microbatch);
  unit.forward(pass, part(blocks, at.inputs, unit.inputs().size()),
               part(blocks, at.outputs, unit.outputs().size()),
               nn::Saved(part(blocks, at.slots, unit.saved_slots().size())));
  hooks.after(unit, PassKind::kForward, microbatch);
}

void Chunk::backward_input_unit(nn::Pass& pass, std::span<const Tensor> blocks,
                                nn::UnitHooks& hooks, int microbatch, std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  const UnitBlocks& at = places_[u];
  hooks.before(unit, PassKind::kBackwardInput, microbatch);
  unit.backward_input(pass, part(blocks, at.inputs, unit.inputs().size()),
                      part(blocks, at.output_gradients, unit.outputs().size()),
                      part(blocks, at.input_gradients, unit.inputs().size()),
                      nn::Saved(part(blocks, at.slots, unit.saved_slots().size())));
  hooks.after(unit, PassKind::kBackwardInput, microbatch);
}

void Chunk::backward_weight_unit(nn::Pass& pass, std::span<const Tensor> blocks,
                                 const nn::Gradients& gradients, nn::UnitHooks& hooks,
                                 int microbatch, std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  const UnitBlocks& at = places_[u];
  hooks.before(unit, PassKind::kBackwardWeight, microbatch);
  unit.backward_weight(pass, part(blocks, at.inputs, unit.inputs().size()),
                       nn::Saved(part(blocks, at.slots, unit.saved_slots().size())), gradients);
  for (const ParamId id : unit.parameters()) hooks.grad_ready(id, microbatch);
  hooks.after(unit, PassKind::kBackwardWeight, microbatch);
}

void Chunk::forward(nn::Pass& pass, std::span<const Tensor> blocks, nn::UnitHooks& hooks,
                    int microbatch) const {
  for (std::size_t u = 0; u < units_.size(); ++u) forward_unit(pass, blocks, hooks, microbatch, u);
}

void Chunk::backward_input(nn::Pass& pass, std::span<const Tensor> blocks, nn::UnitHooks& hooks,
                           int microbatch) const {
  for (std::size_t u = units_.size(); u-- > 0;) {
    backward_input_unit(pass, blocks, hooks, microbatch, u);
  }
}

void Chunk::backward_weight(nn::Pass& pass, std::span<const Tensor> blocks,
                            const nn::Gradients& gradients, nn::UnitHooks& hooks,
                            int microbatch) const {
  for (std::size_t u = units_.size(); u-- > 0;) {
    backward_weight_unit(pass, blocks, gradients, hooks, microbatch, u);
  }
}

void Chunk::backward(nn::Pass& pass, std::span<const Tensor> blocks, const nn::Gradients& gradients,
                     nn::UnitHooks& hooks, int microbatch) const {
  for (std::size_t u = units_.size(); u-- > 0;) {
    backward_input_unit(pass, blocks, hooks, microbatch, u);
    backward_weight_unit(pass, blocks, gradients, hooks, microbatch, u);
  }
}

}  // namespace phalanx
