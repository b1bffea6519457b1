#include "phalanx/pipeline/saved_events.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace phalanx {
namespace {

using nn::PassKind;
using Kind = SavedEventKind;

Kind received(Payload payload) {
  return payload == Payload::kActivation ? Kind::kInputReceived : Kind::kOutputGradientReceived;
}
Kind released(Payload payload) {
  return payload == Payload::kActivation ? Kind::kOutputReleased : Kind::kInputGradientReleased;
}

void append_events(const Action& action, std::vector<SavedEvent>& events) {
  const auto append = [&](Kind kind, int chunk) {
    events.push_back({.kind = kind, .chunk = chunk, .microbatch = action.microbatch});
  };
  switch (action.kind) {
    case ActionKind::kForward:
      return append(Kind::kForward, action.chunk);
    case ActionKind::kBackward:
      return append(Kind::kBackward, action.chunk);
    case ActionKind::kBackwardInput:
      return append(Kind::kBackwardInput, action.chunk);
    case ActionKind::kBackwardWeight:
      return append(Kind::kBackwardWeight, action.chunk);
    case ActionKind::kReceive:
      return append(received(action.payload), action.chunk);
    case ActionKind::kAwaitSend:
      return append(released(action.payload), action.chunk);
    case ActionKind::kHandOver:
      append(received(action.payload), action.peer);
      return append(released(action.payload), action.chunk);
    case ActionKind::kSend:
    case ActionKind::kReduceGradients:
    case ActionKind::kOptimizerStep:
    case ActionKind::kGatherParameters:
      return;
  }
}

// Marks the first and the last event of each microbatch on each chunk.
void mark_ends(std::vector<SavedEvent>& events) {
  int chunks = 0;
  int microbatches = 0;
  for (const SavedEvent& event : events) {
    chunks = std::max(chunks, event.chunk + 1);
    microbatches = std::max(microbatches, event.microbatch + 1);
  }
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> latest(
      static_cast<std::size_t>(chunks) * static_cast<std::size_t>(microbatches), kNone);
  for (std::size_t i = 0; i < events.size(); ++i) {
    std::size_t& before =
        latest[static_cast<std::size_t>(events[i].chunk) * static_cast<std::size_t>(microbatches) +
               static_cast<std::size_t>(events[i].microbatch)];
    events[i].first = before == kNone;
    events[i].last = true;
    if (before != kNone) events[before].last = false;
    before = i;
  }
}

// Only a chunk that hands its output on has tensors that name the point behind its last unit.
int units_with_tensors(const Program& program, int chunk, const std::vector<SavedTensor>& tensors) {
  int points = 0;
  for (const SavedTensor& tensor : tensors) {
    points = std::max({points, tensor.born.unit + 1, tensor.last.unit + 1});
  }
  const bool hands_on = std::ranges::any_of(program.actions, [&](const Action& action) {
    return is_message(action.kind) && action.kind != ActionKind::kReceive &&
           action.payload == Payload::kActivation && action.chunk == chunk;
  });
  return hands_on ? points - 1 : points;
}

std::array<std::vector<TensorChange>, kSavedEventKinds> changes_of(
    const std::vector<SavedTensor>& tensors, int units) {
  struct Changes {
    std::vector<TensorChange> born, dead;
  };
  std::map<std::pair<PassKind, int>, Changes> points;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SavedTensor& tensor = tensors[i];
    if (tensor.bytes() == 0) continue;
    points[{tensor.born.pass, tensor.born.unit}].born.push_back({.tensor = i, .born = true});
    points[{tensor.last.pass, tensor.last.unit}].dead.push_back({.tensor = i, .born = false});
  }
  std::array<std::vector<TensorChange>, kSavedEventKinds> result;
  const auto append = [&](Kind kind, PassKind pass, int unit) {
    auto& changes = result[static_cast<std::size_t>(kind)];
    const Changes& point = points[{pass, unit}];
    changes.insert(changes.end(), point.born.begin(), point.born.end());
    changes.insert(changes.end(), point.dead.begin(), point.dead.end());
  };
  append(Kind::kInputReceived, PassKind::kForward, -1);
  for (int u = 0; u < units; ++u) append(Kind::kForward, PassKind::kForward, u);
  append(Kind::kOutputReleased, PassKind::kForward, units);
  append(Kind::kOutputGradientReceived, PassKind::kBackwardInput, units);
  for (int u = units; u-- > 0;) {
    append(Kind::kBackwardInput, PassKind::kBackwardInput, u);
    append(Kind::kBackwardWeight, PassKind::kBackwardWeight, u);
    append(Kind::kBackward, PassKind::kBackwardInput, u);
    append(Kind::kBackward, PassKind::kBackwardWeight, u);
  }
  append(Kind::kInputGradientReleased, PassKind::kBackwardInput, -1);
  return result;
}

}  // namespace

std::vector<SavedEvent> saved_events(const Program& program) {
  std::vector<SavedEvent> events;
  events.reserve(program.actions.size());
  for (const Action& action : program.actions) append_events(action, events);

  mark_ends(events);
  return events;
}

std::vector<SavedLives> saved_lives(const Program& program,
                                    const std::vector<std::vector<SavedTensor>>& tensors) {
  std::vector<SavedLives> result;
  // Size, passes, and the number among such tensors of its chunk.
  std::map<std::tuple<std::int64_t, PassKind, PassKind, int>, std::size_t> numbers;
  for (std::size_t chunk = 0; chunk < tensors.size(); ++chunk) {
    SavedLives lives;
    std::map<std::tuple<std::int64_t, PassKind, PassKind>, int> seen;
    for (const SavedTensor& tensor : tensors[chunk]) {
      const std::tuple kind(tensor.bytes(), tensor.born.pass, tensor.last.pass);
      const auto number =
          numbers.try_emplace(std::tuple_cat(kind, std::tuple(seen[kind]++)), numbers.size());
      lives.bytes.push_back(tensor.bytes());
      lives.kinds.push_back(number.first->second);
    }
    const int units = units_with_tensors(program, static_cast<int>(chunk), tensors[chunk]);
    lives.changes_of = changes_of(tensors[chunk], units);
    result.push_back(std::move(lives));
  }
  return result;
}

}  // namespace phalanx
