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

Kind comes(Payload payload) {
  return payload == Payload::kActivation ? Kind::kInputComes : Kind::kOutputGradientComes;
}
Kind gone(Payload payload) {
  return payload == Payload::kActivation ? Kind::kOutputGone : Kind::kInputGradientGone;
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
      return append(comes(action.payload), action.chunk);
    case ActionKind::kAwaitSend:
      return append(gone(action.payload), action.chunk);
    case ActionKind::kHandOver:
      append(comes(action.payload), action.peer);
      return append(gone(action.payload), action.chunk);
    case ActionKind::kSend:
    case ActionKind::kReduceGradients:
    case ActionKind::kOptimizerStep:
    case ActionKind::kGatherParameters:
      return;
  }
}

// Which are the first and the last of their microbatch on their chunk.
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

// A block names the point behind the last unit where the chunk hands its output on, and only there.
int units_with_blocks(const Program& program, int chunk, const std::vector<SavedTensor>& blocks) {
  int points = 0;
  for (const SavedTensor& block : blocks) {
    points = std::max({points, block.born.unit + 1, block.last.unit + 1});
  }
  const bool hands_on = std::ranges::any_of(program.actions, [&](const Action& action) {
    return is_message(action.kind) && action.kind != ActionKind::kReceive &&
           action.payload == Payload::kActivation && action.chunk == chunk;
  });
  return hands_on ? points - 1 : points;
}

std::array<std::vector<BlockChange>, kSavedEventKinds> changes_of(
    const std::vector<SavedTensor>& blocks, int units) {
  struct Changes {
    std::vector<BlockChange> born, dead;
  };
  std::map<std::pair<PassKind, int>, Changes> points;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const SavedTensor& block = blocks[i];
    if (block.bytes() == 0) continue;
    points[{block.born.pass, block.born.unit}].born.push_back({.block = i, .born = true});
    points[{block.last.pass, block.last.unit}].dead.push_back({.block = i, .born = false});
  }
  std::array<std::vector<BlockChange>, kSavedEventKinds> result;
  const auto append = [&](Kind kind, PassKind pass, int unit) {
    auto& changes = result[static_cast<std::size_t>(kind)];
    const Changes& at = points[{pass, unit}];
    changes.insert(changes.end(), at.born.begin(), at.born.end());
    changes.insert(changes.end(), at.dead.begin(), at.dead.end());
  };
  append(Kind::kInputComes, PassKind::kForward, -1);
  for (int u = 0; u < units; ++u) append(Kind::kForward, PassKind::kForward, u);
  append(Kind::kOutputGone, PassKind::kForward, units);
  append(Kind::kOutputGradientComes, PassKind::kBackwardInput, units);
  for (int u = units; u-- > 0;) {
    append(Kind::kBackwardInput, PassKind::kBackwardInput, u);
    append(Kind::kBackwardWeight, PassKind::kBackwardWeight, u);
    append(Kind::kBackward, PassKind::kBackwardInput, u);
    append(Kind::kBackward, PassKind::kBackwardWeight, u);
  }
  append(Kind::kInputGradientGone, PassKind::kBackwardInput, -1);
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
                                    const std::vector<std::vector<SavedTensor>>& blocks) {
  std::vector<SavedLives> result;
  // Bytes, passes, and the how many-th such block of its chunk.
  std::map<std::tuple<std::int64_t, PassKind, PassKind, int>, std::size_t> numbers;
  for (std::size_t chunk = 0; chunk < blocks.size(); ++chunk) {
    SavedLives lives;
    std::map<std::tuple<std::int64_t, PassKind, PassKind>, int> seen;
    for (const SavedTensor& block : blocks[chunk]) {
      const std::tuple kind(block.bytes(), block.born.pass, block.last.pass);
      const auto number =
          numbers.try_emplace(std::tuple_cat(kind, std::tuple(seen[kind]++)), numbers.size());
      lives.bytes.push_back(block.bytes());
      lives.likeness.push_back(number.first->second);
    }
    const int units = units_with_blocks(program, static_cast<int>(chunk), blocks[chunk]);
    lives.changes_of = changes_of(blocks[chunk], units);
    result.push_back(std::move(lives));
  }
  return result;
}

}  // namespace phalanx
