#include "phalanx/pipeline/saved_plan.h"

#include <algorithm>
#include <array>
#include <map>

#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

using nn::PassKind;

// Offsets in a pool that grows as needed: the smallest hole that fits, neighbours joined again when
// freed.
class Pool {
 public:
  std::int64_t allocate(std::int64_t bytes) {
    bytes = round_up(bytes, kArenaAlignment);
    if (bytes == 0) return 0;
    auto best = holes_.end();
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
      if (hole->second >= bytes && (best == holes_.end() || hole->second < best->second)) {
        best = hole;
      }
    }
    if (best == holes_.end()) return extend(bytes);
    const auto [offset, size] = *best;
    holes_.erase(best);
    if (size > bytes) holes_.emplace(offset + bytes, size - bytes);
    return offset;
  }

  void free(std::int64_t offset, std::int64_t bytes) {
    bytes = round_up(bytes, kArenaAlignment);
    if (bytes == 0) return;
    auto [hole, inserted] = holes_.emplace(offset, bytes);
    if (const auto next = std::next(hole); next != holes_.end() && offset + bytes == next->first) {
      hole->second += next->second;
      holes_.erase(next);
    }
    if (hole != holes_.begin()) {
      const auto previous = std::prev(hole);
      if (previous->first + previous->second == offset) {
        previous->second += hole->second;
        holes_.erase(hole);
      }
    }
  }

  std::int64_t peak() const { return end_; }

 private:
  // A hole at the very end is widened rather than left behind.
  std::int64_t extend(std::int64_t bytes) {
    std::int64_t offset = end_;
    if (!holes_.empty()) {
      const auto last = std::prev(holes_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        holes_.erase(last);
      }
    }
    end_ = offset + bytes;
    return offset;
  }

  std::map<std::int64_t, std::int64_t> holes_;  // offset -> bytes
  std::int64_t end_ = 0;
};

// The blocks of one chunk by the points where they are born and die.
struct Events {
  explicit Events(const std::vector<SavedBlock>& saved) : blocks(&saved) {
    for (std::size_t i = 0; i < saved.size(); ++i) {
      at(born, saved[i].born).push_back(i);
      at(dead, saved[i].last).push_back(i);
      num_units = std::max({num_units, saved[i].born.unit + 1, saved[i].last.unit + 1});
    }
  }
  using Table = std::array<std::map<int, std::vector<std::size_t>>, 3>;
  static std::vector<std::size_t>& at(Table& table, PassPoint point) {
    return table[static_cast<std::size_t>(point.pass)][point.unit];
  }

  const std::vector<SavedBlock>* blocks;
  Table born, dead;
  int num_units = 0;
};

// Replays actions over the pool and notes the offsets.
class Packing {
 public:
  Packing(std::vector<Events>& events, Pool& pool) : events_(events), pool_(pool) {}

  void run(const Action& action, std::vector<std::int64_t>& offsets) {
    Events& events = events_[static_cast<std::size_t>(action.chunk)];
    offsets.resize(events.blocks->size());
    switch (action.kind) {
      case ActionKind::kForward:
        for (int u = 0; u < events.num_units; ++u) point(events, {PassKind::kForward, u}, offsets);
        return;
      case ActionKind::kBackwardInput:
        for (int u = events.num_units; u-- > 0;) {
          point(events, {PassKind::kBackwardInput, u}, offsets);
        }
        return;
      case ActionKind::kBackwardWeight:
        for (int u = events.num_units; u-- > 0;) {
          point(events, {PassKind::kBackwardWeight, u}, offsets);
        }
        return;
      case ActionKind::kBackward:
        for (int u = events.num_units; u-- > 0;) {
          point(events, {PassKind::kBackwardInput, u}, offsets);
          point(events, {PassKind::kBackwardWeight, u}, offsets);
        }
        return;
      case ActionKind::kReduceGradients:
      case ActionKind::kOptimizerStep:
        return;
    }
  }

 private:
  void point(Events& events, PassPoint at, std::vector<std::int64_t>& offsets) {
    for (const std::size_t i : Events::at(events.born, at)) {
      offsets[i] = pool_.allocate((*events.blocks)[i].bytes());
    }
    for (const std::size_t i : Events::at(events.dead, at)) {
      pool_.free(offsets[i], (*events.blocks)[i].bytes());
    }
  }

  std::vector<Events>& events_;
  Pool& pool_;
};

bool opens(const Action& action) { return action.kind == ActionKind::kForward; }
bool closes(const Action& action, bool forward_only) {
  return action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight ||
         (forward_only && action.kind == ActionKind::kForward);
}

}  // namespace

SavedPlan::SavedPlan(const Program& program, const std::vector<std::vector<SavedBlock>>& blocks)
    : microbatches_(program.microbatches),
      in_flight_(blocks.size(), 0),
      layout_of_(blocks.size() * static_cast<std::size_t>(program.microbatches), 0) {
  std::vector<Events> events(blocks.begin(), blocks.end());
  for (const auto& saved : blocks) {
    std::int64_t held = 0;
    for (const auto& block : saved) {
      if (block.born.pass == PassKind::kForward && block.last.pass != PassKind::kForward) {
        held += block.bytes();
      }
    }
    bytes_per_microbatch_.push_back(held);
  }

  // Between two moments at which nothing is saved, the same pattern of actions gets the same
  // offsets: a thousand microbatches one after the other are packed once.
  using Signature = std::vector<std::array<int, 3>>;
  struct Segment {
    std::map<std::array<int, 2>, std::size_t>
        layouts;  // (chunk, microbatch from the first) -> layout
  };
  std::map<Signature, Segment> segments;
  std::vector<int> open(blocks.size(), 0);
  for (std::size_t begin = 0; begin < program.actions.size();) {
    const int first = program.actions[begin].microbatch;
    Signature signature;
    std::size_t end = begin;
    int live = 0;
    do {
      const Action& action = program.actions[end++];
      signature.push_back({static_cast<int>(action.kind), action.chunk, action.microbatch - first});
      const auto chunk = static_cast<std::size_t>(action.chunk);
      if (opens(action)) {
        ++live;
        in_flight_[chunk] = std::max(in_flight_[chunk], ++open[chunk]);
      }
      if (closes(action, program.forward_only)) {
        --live;
        --open[chunk];
      }
    } while (live > 0 && end < program.actions.size());

    auto [found, is_new] = segments.try_emplace(std::move(signature));
    Segment& segment = found->second;
    if (is_new) {
      Pool pool;
      Packing packing(events, pool);
      for (std::size_t i = begin; i < end; ++i) {
        const Action& action = program.actions[i];
        if (action.kind >= ActionKind::kReduceGradients) continue;
        const auto [layout, fresh] =
            segment.layouts.try_emplace({action.chunk, action.microbatch - first}, layouts_.size());
        if (fresh) layouts_.emplace_back();
        packing.run(action, layouts_[layout->second]);
      }
      bytes_ = std::max(bytes_, pool.peak());
    }
    for (const auto& [key, layout] : segment.layouts) {
      layout_of_[index(key[0], key[1] + first)] = layout;
    }
    begin = end;
  }
}

std::span<const std::int64_t> SavedPlan::offsets(int chunk, int microbatch) const {
  return layouts_[layout_of_[index(chunk, microbatch)]];
}

}  // namespace phalanx
