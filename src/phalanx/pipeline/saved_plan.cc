#include "phalanx/pipeline/saved_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "phalanx/pipeline/saved_events.h"
#include "phalanx/pipeline/saved_packing.h"

namespace phalanx {
namespace {

using nn::PassKind;

std::int64_t bytes_between_passes(const std::vector<SavedTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const SavedTensor& tensor : tensors) {
    const bool waits = !tensor.is_lent && tensor.born.pass == PassKind::kForward &&
                       tensor.last.pass != PassKind::kForward;
    if (waits) bytes += tensor.bytes();
  }
  return bytes;
}

std::vector<int> count_in_flight(const Program& program) {
  std::vector<int> open(static_cast<std::size_t>(program.chunks), 0);
  std::vector<int> most = open;
  for (const Action& action : program.actions) {
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const bool forward = action.kind == ActionKind::kForward;
    if (forward) most[chunk] = std::max(most[chunk], ++open[chunk]);
    if (adds_weight_gradient(action.kind) || (forward && program.forward_only)) --open[chunk];
  }
  return most;
}

std::int64_t count_lent(const std::vector<SavedEvent>& events, const std::vector<SavedLives>& lives,
                        const std::vector<std::vector<SavedTensor>>& tensors) {
  const auto any = [](const auto& list) {
    return std::ranges::any_of(list, &SavedTensor::is_lent);
  };
  if (std::ranges::none_of(tensors, any)) return 0;
  std::int64_t lent = 0;
  std::int64_t most = 0;
  for (const SavedEvent& event : events) {
    const auto chunk = static_cast<std::size_t>(event.chunk);
    for (const TensorChange& change : lives[chunk].changes(event.kind)) {
      if (!tensors[chunk][change.tensor].is_lent) continue;
      const std::int64_t bytes = lives[chunk].bytes[change.tensor];
      lent += change.born ? bytes : -bytes;
      most = std::max(most, lent);
    }
  }
  return most;
}

// Whether two lists of tensors are packed in the same way.
bool are_alike(const std::vector<std::vector<SavedTensor>>& a,
               const std::vector<std::vector<SavedTensor>>& b) {
  const auto same_tensor = [](const SavedTensor& x, const SavedTensor& y) {
    const auto key = [](const SavedTensor& tensor) {
      return std::tuple(tensor.bytes(), tensor.born.pass, tensor.born.unit, tensor.last.pass,
                        tensor.last.unit);
    };
    return key(x) == key(y);
  };
  return std::ranges::equal(
      a, b, [&](const auto& x, const auto& y) { return std::ranges::equal(x, y, same_tensor); });
}

// Whether two actions do the same to the saved memory of their rank; the peer does not matter.
bool are_same_here(const Action& a, const Action& b) {
  const auto key = [](const Action& action) {
    const int reader = action.kind == ActionKind::kHandOver ? action.peer : 0;
    return std::tuple(action.kind, action.payload, action.chunk, action.microbatch, reader);
  };
  return key(a) == key(b);
}

}  // namespace

std::shared_ptr<const SavedPlan> SavedPlans::plan(
    const Program& program, const std::vector<std::vector<SavedTensor>>& tensors) {
  const auto known = std::ranges::find_if(made_, [&](const Made& made) {
    return made.forward_only == program.forward_only && are_alike(made.tensors, tensors) &&
           std::ranges::equal(made.actions, program.actions, are_same_here);
  });
  if (known != made_.end()) {
    known->is_used = true;
    return known->plan;
  }
  made_.push_back({true, program.forward_only, program.actions, tensors,
                   std::make_shared<const SavedPlan>(program, tensors)});
  return made_.back().plan;
}

void SavedPlans::forget_unused() {
  std::erase_if(made_, [](const Made& made) { return !made.is_used; });
  for (Made& made : made_) made.is_used = false;
}

SavedPlan::SavedPlan(const Program& program, const std::vector<std::vector<SavedTensor>>& tensors)
    : microbatches_(program.microbatches),
      layout_of_(tensors.size() * static_cast<std::size_t>(program.microbatches), 0) {
  for (const auto& saved : tensors) bytes_per_microbatch_.push_back(bytes_between_passes(saved));
  const std::vector<SavedEvent> events = saved_events(program);
  in_flight_ = count_in_flight(program);

  const std::vector<SavedLives> lives = saved_lives(program, tensors);
  most_lent_ = count_lent(events, lives, tensors);
  PackedOffsets packed = pack_offsets(events, lives);
  bytes_ = packed.bytes;
  layouts_ = std::move(packed.layouts);
  for (std::size_t i = 0; i < packed.layout_of.size(); ++i) {
    if (packed.layout_of[i] == PackedOffsets::kNoLayout) continue;
    const auto of = static_cast<std::size_t>(packed.microbatches);
    layout_of_[index(static_cast<int>(i / of), static_cast<int>(i % of))] = packed.layout_of[i];
  }
}

std::span<const std::int64_t> SavedPlan::offsets(int chunk, int microbatch) const {
  return layouts_[layout_of_[index(chunk, microbatch)]];
}

}  // namespace phalanx
