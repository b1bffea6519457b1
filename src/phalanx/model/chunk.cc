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

Tensors part(Tensors tensors, std::size_t begin, std::size_t count) {
  return tensors.subspan(begin, count);
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
  for (const auto& unit : units_) trained_.push_back(unit->parameters());
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

void Chunk::leave_out_frozen(const nn::ParamTable& table, bool passes_gradient) {
  for (auto& parameters : trained_) {
    std::erase_if(parameters, [&](ParamId id) { return !table.trains(id); });
  }
  passes_gradient_ = passes_gradient;
  if (passes_gradient) return;
  const auto has_any = [](const auto& parameters) { return !parameters.empty(); };
  first_backward_ = static_cast<int>(std::ranges::find_if(trained_, has_any) - trained_.begin());
}

bool Chunk::is_forward_alone(const Entry& entry) const {
  if (first_backward_ == 0) return false;
  // A gradient, or what a unit's recomputation or backward pass writes.
  if (entry.born.pass != PassKind::kForward) {
    return entry.born.unit < first_backward_ || first_backward_ == num_units();
  }
  if (entry.last.pass == PassKind::kForward) return false;
  return std::max(entry.forward_last, recomputed_until(entry.forward_last)) < first_backward_;
}

int Chunk::recomputed_until(int unit) const {
  const int group = places_[static_cast<std::size_t>(unit)].group;
  return group < 0 ? -1 : static_cast<int>(groups_[static_cast<std::size_t>(group)].last);
}

PassPoint Chunk::recomputation_of(std::size_t u) const {
  return {PassKind::kBackwardInput, recomputed_until(static_cast<int>(u))};
}

bool Chunk::begins_group(std::size_t u) const {
  const int group = places_[u].group;
  return group >= 0 && groups_[static_cast<std::size_t>(group)].first == u;
}

std::size_t Chunk::add(Entry entry) {
  entries_.push_back(std::move(entry));
  return entries_.size() - 1;
}

Chunk::InputCopies Chunk::input_copies(std::size_t u) const {
  if (u == units_.size() || places_[u].group < 0) return InputCopies::kOne;
  if (!begins_group(u)) return InputCopies::kRecomputed;
  return recompute_.input_shards > 1 ? InputCopies::kGathered : InputCopies::kOne;
}

PassPoint Chunk::last_read_of_inputs(std::size_t u) const {
  const bool has_unit = u < units_.size();
  return {has_unit ? pass_of(units_[u]->input_last_reader()) : PassKind::kForward,
          static_cast<int>(u)};
}

// The streams between unit u - 1 and unit u, and their gradients; u runs from 0 (chunk input) to
// num_units (chunk output). The points outside the units are where the chunk's ends are exchanged.
void Chunk::add_streams(std::size_t u) {
  const int consumer = static_cast<int>(u);
  const int producer = consumer - 1;
  const auto& streams = u < units_.size() ? units_[u]->inputs() : units_[u - 1]->outputs();
  for (const auto& stream : streams) {
    if (stream.carried) add_carried(stream, u);
  }
  // An entry for each stream; a carried one has the tensor that all its units share. Returns the
  // number of the first.
  const auto add_each = [&](std::size_t Carried::*shared, const auto& entry_of) {
    const std::size_t first = entries_.size();
    for (const auto& stream : streams) {
      if (stream.carried) {
        add_alias(carried_.at(stream.name).*shared);
      } else {
        add(entry_of(stream));
      }
    }
    return first;
  };

  const InputCopies copies = input_copies(u);
  const PassPoint made{PassKind::kForward, producer};
  const PassPoint used{PassKind::kForward, consumer};
  const PassPoint last_read = last_read_of_inputs(u);
  const std::size_t forward = add_each(&Carried::stream, [&](const nn::StreamSpec& stream) {
    const PassPoint last = copies == InputCopies::kOne ? last_read : used;
    return Entry{stream.name, stream.dtype, stream_shape(stream), made, last, consumer};
  });
  std::size_t backward = forward;
  if (copies != InputCopies::kOne) {
    const PassPoint recomputed = recomputation_of(u);
    if (copies == InputCopies::kGathered) {
      places_[u].input_share = add_each(&Carried::stream, [&](const nn::StreamSpec& stream) {
        return Entry{stream.name + " (share)",
                     stream.dtype,
                     share_shape(stream, recompute_.input_shards),
                     used,
                     recomputed,
                     consumer};
      });
    }
    backward = add_each(&Carried::stream, [&](const nn::StreamSpec& stream) {
      return Entry{stream.name + " (recomputed)", stream.dtype, stream_shape(stream), recomputed,
                   last_read};
    });
  }
  const std::size_t gradients = add_each(
      &Carried::gradient, [&](const nn::StreamSpec& stream) { return gradient_entry(stream, u); });
  if (u < units_.size()) {
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

Chunk::Entry Chunk::gradient_entry(const nn::StreamSpec& stream, std::size_t u) {
  const int consumer = static_cast<int>(u);
  return {stream.name + " gradient",
          stream.dtype,
          stream_shape(stream),
          {PassKind::kBackwardInput, consumer},
          {PassKind::kBackwardInput, consumer - 1}};
}

// A carried stream has its tensors where it enters the chunk or is made. Backward visits the units
// from last to first, so the stream is needed until the backward pass of its first reader. Its
// gradient lives from the backward pass of its last reader, or its arrival from the next stage,
// until the unit in front of the first reader has read it, or it has been sent.
void Chunk::add_carried(const nn::StreamSpec& stream, std::size_t u) {
  const int consumer = static_cast<int>(u);
  const auto known = carried_.find(stream.name);
  if (known != carried_.end()) {
    entries_[known->second.stream].forward_last = consumer;
    entries_[known->second.gradient].born.unit = consumer;
    return;
  }
  const std::size_t tensor = add({stream.name,
                                  stream.dtype,
                                  stream_shape(stream),
                                  {PassKind::kForward, consumer - 1},
                                  last_read_of_inputs(u),
                                  consumer});
  const std::size_t gradient = add(gradient_entry(stream, u));
  carried_.emplace(stream.name, Carried{.stream = tensor, .gradient = gradient});
}

std::size_t Chunk::add_alias(std::size_t shared) {
  Entry entry = entries_[shared];
  entry.same_as = static_cast<int>(shared);
  return add(std::move(entry));
}

void Chunk::add_slots(std::size_t u) {
  const nn::Unit& unit = *units_[u];
  UnitPlaces& places = places_[u];
  const PassPoint here{PassKind::kForward, static_cast<int>(u)};
  const bool recomputed = places.group >= 0;
  places.forward.slots = entries_.size();
  if (recomputed) {
    // What only backward writes does not exist before it.
    for (const auto& slot : unit.saved_slots()) {
      const bool forward = slot.born == nn::Born::kForward;
      const PassPoint last = slot.is_kept ? PassPoint{pass_of(slot.last_reader), here.unit} : here;
      add({unit.name() + ": " + slot.name, slot.dtype,
           forward ? slot_shape(slot) : Entry::ShapeOf(empty_shape), here, last, here.unit});
    }
  }
  places.backward.slots = entries_.size();
  for (std::size_t s = 0; s < unit.saved_slots().size(); ++s) {
    const nn::SavedSlot& slot = unit.saved_slots()[s];
    if (recomputed && slot.is_kept) {
      add_alias(places.forward.slots + s);
      continue;
    }
    const std::string name = unit.name() + ": " + slot.name + (recomputed ? " (recomputed)" : "");
    PassPoint born{PassKind::kBackwardInput, here.unit};
    if (slot.born == nn::Born::kForward) born = recomputed ? recomputation_of(u) : here;
    add({name,
         slot.dtype,
         slot_shape(slot),
         born,
         {pass_of(slot.last_reader), here.unit},
         here.unit});
  }
  if (!recomputed) places.forward.slots = places.backward.slots;
}

std::vector<SavedTensor> Chunk::saved_tensors(const nn::BatchShapes& shapes,
                                              bool forward_only) const {
  std::vector<SavedTensor> tensors;
  for (const Entry& entry : entries_) {
    SavedTensor tensor{.name = entry.name,
                       .dtype = entry.dtype,
                       .shape = entry.shape(shapes),
                       .born = entry.born,
                       .last = entry.last,
                       .same_as = entry.same_as};
    if (entry.forward_last < num_units()) {
      tensor.forward_last = entry.forward_last;
      tensor.backward_first = std::max(entry.forward_last, recomputed_until(entry.forward_last));
    }
    const Entry& owner =
        entry.same_as < 0 ? entry : entries_[static_cast<std::size_t>(entry.same_as)];
    // What would go to a unit in front of the first is needed no longer than by the first.
    if (!passes_gradient_ && tensor.last.pass != PassKind::kForward) {
      tensor.last.unit = std::max(tensor.last.unit, first_backward_);
    }
    if (forward_only || is_forward_alone(owner)) {
      const bool exists = entry.born.pass == PassKind::kForward;
      if (!exists) tensor.shape[0] = 0;
      tensor.born = {PassKind::kForward, exists ? entry.born.unit : 0};
      tensor.last = {PassKind::kForward, exists ? entry.forward_last : 0};
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Tensors Chunk::input_streams(Tensors tensors) const {
  return part(tensors, places_.front().forward.inputs, inputs().size());
}
Tensors Chunk::output_streams(Tensors tensors) const {
  return part(tensors, places_.back().forward.outputs, outputs().size());
}
Tensors Chunk::input_gradients(Tensors tensors) const {
  return part(tensors, places_.front().input_gradients, inputs().size());
}
Tensors Chunk::output_gradients(Tensors tensors) const {
  return part(tensors, places_.back().output_gradients, outputs().size());
}

void Chunk::forward_unit(nn::Pass& whole, Tensors tensors, nn::UnitHooks& hooks, int microbatch,
                         std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  nn::Pass pass = whole.of(unit.sequence());
  const UnitPlaces& places = places_[u];
  hooks.before(unit, PassKind::kForward, microbatch);
  const auto inputs = part(tensors, places.forward.inputs, unit.inputs().size());
  if (input_copies(u) == InputCopies::kGathered) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (unit.inputs()[i].carried) continue;
      ops::copy(pass.ops, {.destination = tensors[places.input_share + i],
                           .source = pass.region.share(inputs[i])});
    }
  }
  const auto outputs = part(tensors, places.forward.outputs, unit.outputs().size());
  const auto slots = part(tensors, places.forward.slots, unit.saved_slots().size());
  unit.forward(pass, inputs, outputs, nn::Saved(slots));
  hooks.after(unit, PassKind::kForward, microbatch,
              {.pass = pass,
               .inputs = inputs,
               .outputs = outputs,
               .output_gradients = {},
               .input_gradients = {},
               .slots = slots});
}

void Chunk::recompute(nn::Pass& whole, Tensors tensors, nn::UnitHooks& hooks, int microbatch,
                      const Group& group) const {
  nn::Pass pass = whole.of(units_[group.first]->sequence());
  pass.recomputing = true;
  const auto& streams = units_[group.first]->inputs();
  // A hook that fetches weights or saved tensors does so before they are read.
  hooks.before(*units_[group.first], PassKind::kRecompute, microbatch);
  if (input_copies(group.first) == InputCopies::kGathered) {
    const UnitPlaces& places = places_[group.first];
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].carried) continue;
      const Tensor& input = tensors[places.backward.inputs + i];
      pass.finish(pass.region.group().all_gather(pass.ops, input.reshape({input.count()}),
                                                 tensors[places.input_share + i]));
    }
  }
  for (std::size_t u = group.first; u <= group.last; ++u) {
    const nn::Unit& unit = *units_[u];
    const PassPlaces& places = places_[u].backward;
    if (u > group.first) hooks.before(unit, PassKind::kRecompute, microbatch);
    const auto inputs = part(tensors, places.inputs, unit.inputs().size());
    const nn::Saved saved(part(tensors, places.slots, unit.saved_slots().size()));
    if (u == group.last) {
      unit.recompute(pass, inputs, saved);
    } else {
      unit.forward(pass, inputs, part(tensors, places.outputs, unit.outputs().size()), saved);
    }
  }
}

nn::UnitTensors Chunk::backward_tensors(const nn::Pass& pass, Tensors tensors,
                                        std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  const UnitPlaces& places = places_[u];
  return {.pass = pass,
          .inputs = part(tensors, places.backward.inputs, unit.inputs().size()),
          .outputs = {},
          .output_gradients = part(tensors, places.output_gradients, unit.outputs().size()),
          .input_gradients = part(tensors, places.input_gradients, unit.inputs().size()),
          .slots = part(tensors, places.backward.slots, unit.saved_slots().size())};
}

void Chunk::begin_gradients(nn::Pass& pass, Tensors tensors, std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  for (std::size_t i = 0; i < unit.inputs().size(); ++i) {
    const nn::StreamSpec& stream = unit.inputs()[i];
    if (!stream.carried || is_among(unit.outputs(), stream.name)) continue;
    ops::fill(pass.ops, {.x = tensors[places_[u].input_gradients + i], .value = 0.0});
  }
}

void Chunk::backward_input_unit(nn::Pass& whole, Tensors tensors, nn::UnitHooks& hooks,
                                int microbatch, std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  nn::Pass pass = whole.of(unit.sequence());
  begin_gradients(pass, tensors, u);
  hooks.before(unit, PassKind::kBackwardInput, microbatch);
  const nn::UnitTensors unit_tensors = backward_tensors(pass, tensors, u);
  unit.backward_input(pass, unit_tensors.inputs, unit_tensors.output_gradients,
                      unit_tensors.input_gradients, nn::Saved(unit_tensors.slots));
  hooks.after(unit, PassKind::kBackwardInput, microbatch, unit_tensors);
}

void Chunk::backward_weight_unit(nn::Pass& whole, Tensors tensors, const nn::Gradients& gradients,
                                 nn::UnitHooks& hooks, int microbatch, std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  nn::Pass pass = whole.of(unit.sequence());
  hooks.before(unit, PassKind::kBackwardWeight, microbatch);
  nn::UnitTensors unit_tensors = backward_tensors(pass, tensors, u);
  unit_tensors.gradients = &gradients;
  if (!trained_[u].empty()) {
    unit.backward_weight(pass, unit_tensors.inputs, nn::Saved(unit_tensors.slots), gradients);
  }
  hooks.after(unit, PassKind::kBackwardWeight, microbatch, unit_tensors);
  for (const ParamId id : trained_[u]) hooks.grad_ready(id, microbatch);
}

void Chunk::backward_unit(nn::Pass& whole, Tensors tensors, const nn::Gradients& gradients,
                          nn::UnitHooks& hooks, int microbatch, std::size_t u) const {
  const nn::Unit& unit = *units_[u];
  nn::Pass pass = whole.of(unit.sequence());
  begin_gradients(pass, tensors, u);
  hooks.before(unit, PassKind::kBackwardInput, microbatch);
  hooks.before(unit, PassKind::kBackwardWeight, microbatch);
  nn::UnitTensors unit_tensors = backward_tensors(pass, tensors, u);
  const nn::Saved saved(unit_tensors.slots);
  if (trained_[u].empty()) {
    unit.backward_input(pass, unit_tensors.inputs, unit_tensors.output_gradients,
                        unit_tensors.input_gradients, saved);
  } else {
    unit.backward(pass, unit_tensors.inputs, unit_tensors.output_gradients,
                  unit_tensors.input_gradients, saved, gradients);
  }
  hooks.after(unit, PassKind::kBackwardInput, microbatch, unit_tensors);
  unit_tensors.gradients = &gradients;
  hooks.after(unit, PassKind::kBackwardWeight, microbatch, unit_tensors);
  for (const ParamId id : trained_[u]) hooks.grad_ready(id, microbatch);
}

void Chunk::forward(nn::Pass& pass, Tensors tensors, nn::UnitHooks& hooks, int microbatch) const {
  for (std::size_t u = 0; u < units_.size(); ++u) forward_unit(pass, tensors, hooks, microbatch, u);
}

void Chunk::infer(nn::InferencePass& whole, Tensors tensors) const {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const nn::Unit& unit = *units_[u];
    const PassPlaces& places = places_[u].forward;
    nn::Pass own = whole.pass.of(unit.sequence());
    nn::InferencePass pass{.pass = own,
                           .caches = whole.caches,
                           .logits = whole.logits,
                           .row_losses = whole.row_losses};
    unit.infer(pass, part(tensors, places.inputs, unit.inputs().size()),
               part(tensors, places.outputs, unit.outputs().size()),
               nn::Saved(part(tensors, places.slots, unit.saved_slots().size())));
  }
}

void Chunk::recompute_before(nn::Pass& pass, Tensors tensors, nn::UnitHooks& hooks, int microbatch,
                             std::size_t u) const {
  const int group = places_[u].group;
  if (group < 0) return;
  const Group& units = groups_[static_cast<std::size_t>(group)];
  if (units.last == u) recompute(pass, tensors, hooks, microbatch, units);
}

void Chunk::backward_input(nn::Pass& pass, Tensors tensors, nn::UnitHooks& hooks,
                           int microbatch) const {
  const auto begin = static_cast<std::size_t>(first_backward_);
  for (std::size_t u = units_.size(); u-- > begin;) {
    recompute_before(pass, tensors, hooks, microbatch, u);
    backward_input_unit(pass, tensors, hooks, microbatch, u);
  }
}

void Chunk::backward_weight(nn::Pass& pass, Tensors tensors, const nn::Gradients& gradients,
                            nn::UnitHooks& hooks, int microbatch) const {
  const auto begin = static_cast<std::size_t>(first_backward_);
  for (std::size_t u = units_.size(); u-- > begin;) {
    backward_weight_unit(pass, tensors, gradients, hooks, microbatch, u);
  }
}

void Chunk::backward(nn::Pass& pass, Tensors tensors, const nn::Gradients& gradients,
                     nn::UnitHooks& hooks, int microbatch) const {
  const auto begin = static_cast<std::size_t>(first_backward_);
  for (std::size_t u = units_.size(); u-- > begin;) {
    recompute_before(pass, tensors, hooks, microbatch, u);
    backward_unit(pass, tensors, gradients, hooks, microbatch, u);
  }
}

}  // namespace phalanx
