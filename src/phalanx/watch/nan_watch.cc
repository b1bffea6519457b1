#include "phalanx/watch/nan_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/watch/finite.h"

namespace phalanx {
namespace {

using nn::LastReader;
using nn::PassKind;

// A tensor with its name for messages.
struct Named {
  Tensor tensor;
  std::string name;
  bool may_be_minus_infinity = false;
};

Named named(const nn::SavedSlot& slot, const Tensor& tensor) {
  return {tensor, slot.name, slot.may_be_minus_infinity};
}

void add_streams(std::vector<Named>& tensors, const std::vector<nn::StreamSpec>& streams,
                 Tensors found, std::string_view name) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    tensors.push_back({found[i], streams.size() > 1 ? fmt::format("{} {}", name, streams[i].name)
                                                    : std::string(name)});
  }
}

// The rows of a table to which passes have added.
Tensor rows_in_use(Context& context, const nn::SparseGradient& sparse) {
  std::int32_t count = 0;
  context.backend.read_back(context.queue, sparse.count,
                            std::as_writable_bytes(std::span(&count, 1)));
  return sparse.values.slice(0, 0, count);
}

// The tensors of a pass in the order in which it writes them.
std::vector<Named> written_gradients(const nn::Unit& unit, const nn::UnitTensors& t,
                                     const nn::ParamTable& table) {
  std::vector<Named> tensors;
  const nn::Gradients& gradients = *t.gradients;
  // Memory that no pass of this step has written yet has values of the last step.
  const auto add = [&](const nn::ParamUse& use) {
    if (!gradients.is_written(use)) return;
    if (gradients.has_rows(use)) {
      tensors.push_back({rows_in_use(t.pass.ops, gradients.rows(use)),
                         fmt::format("gradient of {}'s rows", table[use.id].name)});
    } else {
      tensors.push_back({gradients[use], "gradient of " + table[use.id].name});
    }
  };
  for (std::size_t i = unit.parameters().size(); i-- > 0;) {
    const ParamId id = unit.parameters()[i];
    bool has_roles = false;
    for (int r = 0; r < std::ssize(table.roles()); ++r) {
      if (table.roles()[static_cast<std::size_t>(r)].id != id) continue;
      has_roles = true;
      add({id, r});
    }
    if (!has_roles) add({id});
  }
  return tensors;
}

std::vector<Named> written(const nn::Unit& unit, PassKind pass, const nn::UnitTensors& t,
                           const nn::ParamTable& table) {
  if (pass == PassKind::kBackwardWeight) return written_gradients(unit, t, table);
  std::vector<Named> tensors;
  const auto& slots = unit.saved_slots();
  if (pass == PassKind::kForward) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].born == nn::Born::kForward) tensors.push_back(named(slots[i], t.slots[i]));
    }
    add_streams(tensors, unit.outputs(), t.outputs, "output");
    if (unit.outputs().empty()) {
      for (const nn::LossTerm& loss : t.pass.losses) tensors.push_back({loss.sum, "loss"});
    }
    return tensors;
  }
  // A backward pass goes through a unit from its end.
  for (std::size_t i = slots.size(); i-- > 0;) {
    if (slots[i].born == nn::Born::kInputGradient) tensors.push_back(named(slots[i], t.slots[i]));
  }
  add_streams(tensors, unit.inputs(), t.input_gradients, "input gradient");
  return tensors;
}

// The tensors that the pass has read, without those whose memory may have been reused since.
std::vector<Named> read(const nn::Unit& unit, PassKind pass, const nn::UnitTensors& t) {
  std::vector<Named> tensors;
  if (pass == PassKind::kForward) {
    add_streams(tensors, unit.inputs(), t.inputs, "input");
    return tensors;
  }
  const LastReader reader =
      pass == PassKind::kBackwardInput ? LastReader::kInputGradient : LastReader::kWeightGradient;
  if (pass == PassKind::kBackwardInput) {
    add_streams(tensors, unit.outputs(), t.output_gradients, "output gradient");
  }
  if (unit.input_last_reader() >= reader) add_streams(tensors, unit.inputs(), t.inputs, "input");
  const auto& slots = unit.saved_slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const bool is_read = slots[i].last_reader >= reader &&
                         (slots[i].born == nn::Born::kForward || pass == PassKind::kBackwardWeight);
    if (is_read) tensors.push_back(named(slots[i], t.slots[i]));
  }
  return tensors;
}

const Named* first_non_finite(Context& context, const std::vector<Named>& tensors) {
  const auto found = std::ranges::find_if(tensors, [&](const Named& it) {
    return !is_finite(context, it.tensor, it.may_be_minus_infinity);
  });
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace

NanWatch::NanWatch(const Rank& rank, const Placement& placement, nn::UnitHooks* first_hooks)
    : rank_(rank), first_hooks_(first_hooks) {
  for (int c = 0; c < std::ssize(rank.chunks()); ++c) {
    const auto& units = rank.chunks()[static_cast<std::size_t>(c)].units();
    for (int u = 0; u < std::ssize(units); ++u) {
      places_.push_back({units[static_cast<std::size_t>(u)].get(),
                         placement.stage(rank.ranks().coordinates.pipeline, c), u});
    }
  }
}

void NanWatch::before(const nn::Unit& unit, PassKind pass, int microbatch) {
  if (first_hooks_ != nullptr) first_hooks_->before(unit, pass, microbatch);
}

void NanWatch::grad_ready(ParamId id, int microbatch) {
  if (first_hooks_ != nullptr) first_hooks_->grad_ready(id, microbatch);
}

void NanWatch::after(const nn::Unit& unit, PassKind pass, int microbatch,
                     const nn::UnitTensors& tensors) {
  if (first_hooks_ != nullptr) first_hooks_->after(unit, pass, microbatch, tensors);
  if (first_) return;
  Context& context = tensors.pass.ops;
  const nn::ParamTable& table = rank_.table();
  const std::vector<Named> found = written(unit, pass, tensors, table);
  const Named* tensor = first_non_finite(context, found);
  if (tensor == nullptr) return;
  std::vector<Named> weights;
  for (const ParamId id : unit.parameters()) {
    // Tensors that the pass does not read may not exist.
    const Tensor& weight = tensors.pass.weights[id];
    if (weight) weights.push_back({weight, table[id].name});
  }
  const std::vector<Named> inputs = read(unit, pass, tensors);
  const Named* input = first_non_finite(context, inputs);
  const Named* weight = first_non_finite(context, weights);
  const auto place = std::ranges::find(places_, &unit, &Place::unit);
  PHALANX_CHECK(place != places_.end(), "{} is no unit of this rank", unit.name());
  first_ = {.pass = pass,
            .microbatch = microbatch,
            .stage = place->stage,
            .unit = place->number,
            .unit_name = unit.name(),
            .step = static_cast<int>(tensor - found.data()),
            .tensor = tensor->name,
            .input = input != nullptr ? input->name : std::string(),
            .weight = weight != nullptr ? weight->name : std::string()};
}

}  // namespace phalanx
