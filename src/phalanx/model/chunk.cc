#include "phalanx/model/chunk.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/ops/elementwise.h"

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

Shape empty_shape(const nn::BatchShapes& /*batch*/) { return {0}; }

std::function<Shape(const nn::BatchShapes&)> stream_shape(const nn::StreamSpec& stream) {
  return [width = stream.width, sequence = stream.sequence](const nn::BatchShapes& shapes) {
    const nn::BatchShape& batch = shapes[sequence];
    return Shape{batch.stream_sequence(), batch.micro_batch, width};
  };
}

// An equal part of a stream that is whole on every rank.
std::function<Shape(const nn::BatchShapes&)> share_shape(const nn::StreamSpec& stream, int shards) {
  return [width = stream.width, sequence = stream.sequence, shards](const nn::BatchShapes& shapes) {
    return Shape{shapes[sequence].rows() * width / shards};
  };
}

std::function<Shape(const nn::BatchShapes&)> slot_shape(const nn::SavedSlot& slot) {
  return [shape = slot.shape, sequence = slot.sequence](const nn::BatchShapes& shapes) {
    return shape(shapes[sequence]);
  };
}

bool is_among(const std::vector<nn::StreamSpec>& streams, const std::string& name) {
  return std::ranges::any_of(streams, [&](const auto& stream) { return stream.name == name; });
}

}  // namespace

Chunk::Chunk(std::vector<std::unique_ptr<nn::Unit>> units, const RecomputePlan& recompute)
    : units_(std::move(units)), recompute_(recompute), places_(units_.size()) {
  PHALANX_CHECK(!units_.empty(), "a chunk needs a unit");
  for (std::size_t u = 1; u < units_.size(); ++u) {
    PHALANX_CHECK(units_[u]->inputs().size() == units_[u - 1]->outputs().size(),
                  "{} does not fit behind {}", units_[u]->name(), units_[u - 1]->name());
  }
  form_groups();
  add_streams(0);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    add_slots(u);
    add_streams(u + 1);
  }
}

void Chunk::form_groups() {
  if (recompute_.method == RecomputePlan::Method::kNone) return;
  const bool uniform = recompute_.method == RecomputePlan::Method::kUniform;
  const auto longest = uniform ? static_cast<std::size_t>(recompute_.num_layers) : 1;
  std::int64_t left = uniform ? num_units() : recompute_.num_layers;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (!units_[u]->recomputable() || left-- <= 0) continue;
    const bool joins = !groups_.empty() && groups_.back().last + 1 == u &&
                       groups_.back().last - groups_.back().first + 1 < longest;
    if (joins) {
      groups_.back().last = u;
    } else {
      groups_.push_back({u, u});
    }
    places_[u].group = static_cast<int>(groups_.size()) - 1;
  }
}

int Chunk::recomputed_until(int unit) const {
  const int group = places_[static_cast<std::size_t>(unit)].group;
  return group < 0 ? -1 : static_cast<int>(groups_[static_cast<std::size_t>(group)].last);
}

bool Chunk::begins_group(std::size_t u) const {
  const int group = places_[u].group;
  return group >= 0 && groups_[static_cast<std::size_t>(group)].first == u;
}

std::size_t Chunk::add(Entry entry) {
  entries_.push_back(std::move(entry));
  return entries_.size() - 1;
}

// The streams between unit u - 1 and unit u, and their gradients; u runs from 0 (chunk input) to
// num_units (chunk output). The points outside the units are where the chunk's ends are exchanged.
void Chunk::add_streams(std::size_t u) {
  const bool has_consumer = u < units_.size();
  const int consumer = static_cast<int>(u);
  const int producer = consumer - 1;
  const auto& streams = has_consumer ? units_[u]->inputs() : units_[u - 1]->outputs();
  const PassPoint made{PassKind::kForward, producer};
  const PassPoint used{PassKind::kForward, consumer};
  const PassPoint read{has_consumer ? pass_of(units_[u]->input_last_reader()) : PassKind::kForward,
                       consumer};
  const bool recomputed_consumer = has_consumer && places_[u].group >= 0;
  const bool is_group_input = has_consumer && begins_group(u);
  const bool is_shared = is_group_input && recompute_.input_shards > 1;
  const bool lives_twice = recomputed_consumer && (!is_group_input || is_shared);

  // A carried stream has its blocks where it enters the chunk, or is made.
  for (const auto& stream : streams) {
    if (stream.carried) add_carried(stream, u);
  }
  const std::size_t forward = entries_.size();
  for (const auto& stream : streams) {
    if (stream.carried) {
      add_alias(carried_.at(stream.name).stream);
    } else {
      add({stream.name, stream.dtype, stream_shape(stream), made, lives_twice ? used : read,
           consumer});
    }
  }
  std::size_t backward = forward;
  if (lives_twice) {
    const Group& group = groups_[static_cast<std::size_t>(places_[u].group)];
    const PassPoint recomputed{PassKind::kBackwardInput, static_cast<int>(group.last)};
    if (is_shared) {
      places_[u].input_share = entries_.size();
      for (const auto& stream : streams) {
        if (stream.carried) {
          add_alias(carried_.at(stream.name).stream);
        } else {
          add({stream.name + " (share)", stream.dtype, share_shape(stream, recompute_.input_shards),
               used, recomputed, consumer});
        }
      }
    }
    backward = entries_.size();
    for (const auto& stream : streams) {
      if (stream.carried) {
        add_alias(carried_.at(stream.name).stream);
      } else {
        add({stream.name + " (recomputed)", stream.dtype, stream_shape(stream), recomputed, read});
      }
    }
  }
  const std::size_t gradients = entries_.size();
  for (const auto& stream : streams) {
    if (stream.carried) {
      add_alias(carried_.at(stream.name).gradient);
    } else {
      add({stream.name + " gradient",
           stream.dtype,
           stream_shape(stream),
           {PassKind::kBackwardInput, consumer},
           {PassKind::kBackwardInput, producer}});
    }
  }
  if (has_consumer) {
    places_[u].forward.inputs = forward;
    places_[u].backward.inputs = backward;
    places_[u].input_gradients = gradients;
  }
  if (u > 0) {
    places_[u - 1].forward.outputs = forward;
    places_[u - 1].backward.outputs = backward;
    places_[u - 1].output_gradients = gradients;
  }
}

// Its first reader in the chunk is the last that needs it again. The gradient is there from the
// last reader's backward pass on, or from when it comes, until the unit in front of the first
// reader has had it, or it has gone.
void Chunk::add_carried(const nn::StreamSpec& stream, std::size_t u) {
  const bool has_consumer = u < units_.size();
  const int consumer = static_cast<int>(u);
  const int producer = consumer - 1;
  const auto known = carried_.find(stream.name);
  if (known != carried_.end()) {
    entries_[known->second.stream].forward_last = consumer;
    entries_[known->second.gradient].born.unit = consumer;
    return;
  }
  const PassPoint read{has_consumer ? pass_of(units_[u]->input_last_reader()) : PassKind::kForward,
                       consumer};
  const std::size_t block = add({stream.name,
                                 stream.dtype,
                                 stream_shape(stream),
                                 {PassKind::kForward, producer},
                                 read,
                                 consumer});
  const std::size_t gradient = add({stream.name + " gradient",
                                    stream.dtype,
                                    stream_shape(stream),
                                    {PassKind::kBackwardInput, consumer},
                                    {PassKind::kBackwardInput, producer}});
  carried_.emplace(stream.name, Carried{.stream = block, .gradient = gradient});
}

std::size_t Chunk::add_alias(std::size_t block) {
  Entry entry = entries_[block];
  entry.same_as = static_cast<int>(block);
  return add(std::move(entry));
}

void Chunk::add_slots(std::size_t u) {
  const nn::Unit& unit = *units_[u];
  UnitBlocks& at = places_[u];
  const PassPoint here{PassKind::kForward, static_cast<int>(u)};
  const bool recomputed = at.group >= 0;
  at.forward.slots = entries_.size();
  if (recomputed) {
    // What only backward writes does not exist before it.
    for (const auto& slot : unit.saved_slots()) {
      const bool forward = slot.born == nn::Born::kForward;
      add({unit.name() + ": " + slot.name, slot.dtype,
           forward ? slot_shape(slot) : Entry::ShapeOf(empty_shape), here, here, here.unit});
    }
  }
  at.backward.slots = entries_.size();
  for (const auto& slot : unit.saved_slots()) {
    const std::string name = unit.name() + ": " + slot.name + (recomputed ? " (recomputed)" : "");
    PassPoint born{PassKind::kBackwardInput, here.unit};
    if (slot.born == nn::Born::kForward) {
      born = recomputed
                 ? PassPoint{PassKind::kBackwardInput,
                             static_cast<int>(groups_[static_cast<std::size_t>(at.group)].last)}
                 : here;
    }
    add({name,
         slot.dtype,
         slot_shape(slot),
         born,
         {pass_of(slot.last_reader), here.unit},
         here.unit});
  }
  if (!recomputed) at.forward.slots = at.backward.slots;
}

std::vector<SavedTensor> Chunk::saved_tensors(const nn::BatchShapes& shapes,
                                              bool forward_only) const {
  std::vector<SavedTensor> blocks;
  for (const Entry& entry : entries_) {
    SavedTensor block{.name = entry.name,
                      .dtype = entry.dtype,
                      .shape = entry.shape(shapes),
                      .born = entry.born,
                      .last = entry.last,
                      .same_as = entry.same_as};
    if (entry.forward_last < num_units()) {
      block.forward_last = entry.forward_last;
      block.backward_first = std::max(entry.forward_last, recomputed_until(entry.forward_last));
    }
    if (forward_only) {
      const bool exists = entry.born.pass == PassKind::kForward;
      if (!exists) block.shape[0] = 0;
      block.born = {PassKind::kForward, exists ? entry.born.unit : 0};
      block.last = {PassKind::kForward, exists ? entry.forward_last : 0};
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

std::span<const Tensor> Chunk::input_streams(std::span<const Tensor> blocks) const {
  return part(blocks, places_.front().forward.inputs, inputs().size());
}
std::span<const Tensor> Chunk::output_streams(std::span<const Tensor> blocks) const {
  return part(blocks, places_.back().forward.outputs, outputs().size());
}
std::span<const Tensor> Chunk::input_gradients(std::span<const Tensor> blocks) const {
  return part(blocks, places_.front().input_gradients, inputs().size());
}
std::span<const Tensor> Chunk::output_gradients(std::span<const Tensor> blocks) const {
  return part(blocks, places_.back().output_gradients, outputs().size());
}

void Chunk::forward_unit(nn::Pass& whole, std::span<const Tensor> blocks, nn::UnitHooks& hooks,
                         int microbatch, std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  nn::Pass pass = whole.of(unit.sequence());
  const UnitBlocks& at = places_[u];
  hooks.before(unit, PassKind::kForward, microbatch);
  const auto inputs = part(blocks, at.forward.inputs, unit.inputs().size());
  if (begins_group(u) && recompute_.input_shards > 1) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (unit.inputs()[i].carried) continue;
      ops::copy(pass.ops, {.destination = blocks[at.input_share + i],
                           .source = pass.region.share(inputs[i])});
    }
  }
  const auto outputs = part(blocks, at.forward.outputs, unit.outputs().size());
  const auto slots = part(blocks, at.forward.slots, unit.saved_slots().size());
  unit.forward(pass, inputs, outputs, nn::Saved(slots));
  hooks.after(unit, PassKind::kForward, microbatch,
              {.pass = pass,
               .inputs = inputs,
               .outputs = outputs,
               .output_gradients = {},
               .input_gradients = {},
               .slots = slots});
}

void Chunk::recompute(nn::Pass& whole, std::span<const Tensor> blocks, nn::UnitHooks& hooks,
                      int microbatch, const Group& group) const {
  nn::Pass pass = whole.of(units_[group.first]->sequence());
  const auto& streams = units_[group.first]->inputs();
  // Whoever brings something must have brought it when it is read.
  hooks.before(*units_[group.first], PassKind::kRecompute, microbatch);
  if (recompute_.input_shards > 1) {
    const UnitBlocks& at = places_[group.first];
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].carried) continue;
      const Tensor& input = blocks[at.backward.inputs + i];
      pass.finish(pass.region.group().all_gather(pass.ops, input.reshape({input.count()}),
                                                 blocks[at.input_share + i]));
    }
  }
  for (std::size_t u = group.first; u <= group.last; ++u) {
    const nn::Unit& unit = *units_[u];
    const PassBlocks& at = places_[u].backward;
    if (u > group.first) hooks.before(unit, PassKind::kRecompute, microbatch);
    const auto inputs = part(blocks, at.inputs, unit.inputs().size());
    const nn::Saved saved(part(blocks, at.slots, unit.saved_slots().size()));
    if (u == group.last) {
      unit.recompute(pass, inputs, saved);
    } else {
      unit.forward(pass, inputs, part(blocks, at.outputs, unit.outputs().size()), saved);
    }
  }
}

nn::UnitTensors Chunk::backward_tensors(const nn::Pass& pass, std::span<const Tensor> blocks,
                                        std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  const UnitBlocks& at = places_[u];
  return {.pass = pass,
          .inputs = part(blocks, at.backward.inputs, unit.inputs().size()),
          .outputs = {},
          .output_gradients = part(blocks, at.output_gradients, unit.outputs().size()),
          .input_gradients = part(blocks, at.input_gradients, unit.inputs().size()),
          .slots = part(blocks, at.backward.slots, unit.saved_slots().size())};
}

void Chunk::begin_gradients(nn::Pass& pass, std::span<const Tensor> blocks, std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  for (std::size_t i = 0; i < unit.inputs().size(); ++i) {
    const nn::StreamSpec& stream = unit.inputs()[i];
    if (!stream.carried || is_among(unit.outputs(), stream.name)) continue;
    ops::fill(pass.ops, {.x = blocks[places_[u].input_gradients + i], .value = 0.0});
  }
}

void Chunk::backward_input_unit(nn::Pass& whole, std::span<const Tensor> blocks,
                                nn::UnitHooks& hooks, int microbatch, std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  nn::Pass pass = whole.of(unit.sequence());
  begin_gradients(pass, blocks, u);
  hooks.before(unit, PassKind::kBackwardInput, microbatch);
  const nn::UnitTensors at = backward_tensors(pass, blocks, u);
  unit.backward_input(pass, at.inputs, at.output_gradients, at.input_gradients,
                      nn::Saved(at.slots));
  hooks.after(unit, PassKind::kBackwardInput, microbatch, at);
}

void Chunk::backward_weight_unit(nn::Pass& whole, std::span<const Tensor> blocks,
                                 const nn::Gradients& gradients, nn::UnitHooks& hooks,
                                 int microbatch, std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  nn::Pass pass = whole.of(unit.sequence());
  hooks.before(unit, PassKind::kBackwardWeight, microbatch);
  nn::UnitTensors at = backward_tensors(pass, blocks, u);
  at.gradients = &gradients;
  unit.backward_weight(pass, at.inputs, nn::Saved(at.slots), gradients);
  hooks.after(unit, PassKind::kBackwardWeight, microbatch, at);
  for (const ParamId id : unit.parameters()) hooks.grad_ready(id, microbatch);
}

void Chunk::backward_unit(nn::Pass& whole, std::span<const Tensor> blocks,
                          const nn::Gradients& gradients, nn::UnitHooks& hooks, int microbatch,
                          std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  nn::Pass pass = whole.of(unit.sequence());
  begin_gradients(pass, blocks, u);
  hooks.before(unit, PassKind::kBackwardInput, microbatch);
  hooks.before(unit, PassKind::kBackwardWeight, microbatch);
  nn::UnitTensors at = backward_tensors(pass, blocks, u);
  unit.backward(pass, at.inputs, at.output_gradients, at.input_gradients, nn::Saved(at.slots),
                gradients);
  hooks.after(unit, PassKind::kBackwardInput, microbatch, at);
  at.gradients = &gradients;
  hooks.after(unit, PassKind::kBackwardWeight, microbatch, at);
  for (const ParamId id : unit.parameters()) hooks.grad_ready(id, microbatch);
}

void Chunk::forward(nn::Pass& pass, std::span<const Tensor> blocks, nn::UnitHooks& hooks,
                    int microbatch) const {
  for (std::size_t u = 0; u < units_.size(); ++u) forward_unit(pass, blocks, hooks, microbatch, u);
}

void Chunk::infer(nn::InferencePass& whole, std::span<const Tensor> blocks) const {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const nn::Unit& unit = *units_[u];
    const PassBlocks& at = places_[u].forward;
    nn::Pass own = whole.pass.of(unit.sequence());
    nn::InferencePass pass{.pass = own,
                           .caches = whole.caches,
                           .logits = whole.logits,
                           .row_losses = whole.row_losses};
    unit.infer(pass, part(blocks, at.inputs, unit.inputs().size()),
               part(blocks, at.outputs, unit.outputs().size()),
               nn::Saved(part(blocks, at.slots, unit.saved_slots().size())));
  }
}

void Chunk::recompute_before(nn::Pass& pass, std::span<const Tensor> blocks, nn::UnitHooks& hooks,
                             int microbatch, std::size_t u) const {
  const int group = places_[u].group;
  if (group < 0) return;
  const Group& units = groups_[static_cast<std::size_t>(group)];
  if (units.last == u) recompute(pass, blocks, hooks, microbatch, units);
}

void Chunk::backward_input(nn::Pass& pass, std::span<const Tensor> blocks, nn::UnitHooks& hooks,
                           int microbatch) const {
  for (std::size_t u = units_.size(); u-- > 0;) {
    recompute_before(pass, blocks, hooks, microbatch, u);
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
    recompute_before(pass, blocks, hooks, microbatch, u);
    backward_unit(pass, blocks, gradients, hooks, microbatch, u);
  }
}

}  // namespace phalanx
