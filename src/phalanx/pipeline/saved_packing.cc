#include "phalanx/pipeline/saved_packing.h"

#include <algorithm>
#include <map>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/pool.h"

namespace phalanx {
namespace {

using Offsets = PackedOffsets::Offsets;
using Owner = std::pair<int, int>;  // (chunk, microbatch)

Owner owner_of(const SavedEvent& event) { return {event.chunk, event.microbatch}; }

// A microbatch on a chunk between its first and its last event.
struct Open {
  Offsets offsets;      // of the blocks born so far
  unsigned events = 0;  // by bit, which have happened: for a given chunk they say what lives
  int live = 0;         // blocks

  friend bool operator==(const Open&, const Open&) = default;
};

// The places that blocks of one kind have left, the latest last; some may be taken by others now.
using Vacated = std::vector<std::int64_t>;
// More are forgotten, the earliest first. In a steady state few are free at a time.
constexpr std::size_t kVacatedPlaces = 16;

// All that offsets depend on, besides the events to come and how far the pool has grown.
struct State {
  std::map<Owner, Open> open;
  std::vector<Vacated> vacated;  // by likeness
};

class Packing {
 public:
  Packing(std::span<const SavedEvent> events, std::span<const SavedLives> lives)
      : events_(events), lives_(lives) {
    std::size_t likenesses = 0;
    for (const SavedLives& chunk : lives) {
      for (const std::size_t likeness : chunk.likeness) {
        likenesses = std::max(likenesses, likeness + 1);
      }
    }
    state_.vacated.resize(likenesses);
    for (const SavedEvent& event : events) {
      microbatches_ = std::max(microbatches_, event.microbatch + 1);
    }
    open_of_.resize(lives.size() * static_cast<std::size_t>(microbatches_), nullptr);
    layout_of_.resize(open_of_.size(), PackedOffsets::kNoLayout);
    count_open();
    remember();
  }

  PackedOffsets run(Repetitions repetitions) {
    while (at_ < events_.size()) {
      play(events_[at_++]);
      ++packed_events_;
      if (repetitions == Repetitions::kSkipped && at_ < events_.size()) skip_repetitions();
    }
    return {.bytes = pool_.size(),
            .layouts = take_layouts(),
            .microbatches = microbatches_,
            .layout_of = std::move(layout_of_),
            .packed_events = packed_events_};
  }

 private:
  std::size_t index(const SavedEvent& event) const {
    return static_cast<std::size_t>(event.chunk) * static_cast<std::size_t>(microbatches_) +
           static_cast<std::size_t>(event.microbatch);
  }
  Open& open_at(const SavedEvent& event) {
    Open*& open = open_of_[index(event)];
    if (open == nullptr) open = &state_.open[owner_of(event)];
    return *open;
  }

  // How many microbatches are open at each moment, and the last moment at which so many are.
  void count_open() {
    int open = 0;
    open_before_.reserve(events_.size());
    last_moment_.assign(1, 0);
    for (std::size_t i = 0; i < events_.size(); ++i) {
      open_before_.push_back(open);
      last_moment_.resize(std::max(last_moment_.size(), static_cast<std::size_t>(open) + 1));
      last_moment_[static_cast<std::size_t>(open)] = i;
      open += (events_[i].first ? 1 : 0) - (events_[i].last ? 1 : 0);
    }
  }

  void play(const SavedEvent& event) {
    const SavedLives& lives = lives_[static_cast<std::size_t>(event.chunk)];
    Open& open = open_at(event);
    if (event.first) open.offsets.assign(lives.bytes.size(), 0);
    open.events |= 1U << static_cast<unsigned>(event.kind);
    for (const BlockChange& change : lives.changes(event.kind)) {
      const std::int64_t bytes = lives.bytes[change.block];
      std::int64_t& offset = open.offsets[change.block];
      Vacated& vacated = state_.vacated[lives.likeness[change.block]];
      if (change.born) {
        offset = allocate(bytes, vacated);
        ++open.live;
      } else {
        pool_.free(offset, bytes);
        vacated.push_back(offset);
        if (vacated.size() > kVacatedPlaces) vacated.erase(vacated.begin());
        --open.live;
      }
    }
    if (event.last) close(event);
  }

  std::int64_t allocate(std::int64_t bytes, Vacated& vacated) {
    const auto last_free = std::find_if(vacated.rbegin(), vacated.rend(), [&](std::int64_t offset) {
      return pool_.allocate_at(offset, bytes);
    });
    const std::int64_t offset = last_free == vacated.rend() ? pool_.allocate(bytes) : *last_free;
    std::erase(vacated, offset);
    return offset;
  }

  void close(const SavedEvent& event) {
    const auto found = state_.open.find(owner_of(event));
    Open& open = found->second;
    PHALANX_CHECK(open.live == 0, "microbatch {} on chunk {}: {} more blocks are born than die",
                  event.microbatch, event.chunk, open.live);
    const auto layout = layouts_.try_emplace(std::move(open.offsets), layouts_.size()).first;
    layout_of_[index(event)] = layout->second;
    open_of_[index(event)] = nullptr;
    state_.open.erase(found);
  }

  std::vector<Offsets> take_layouts() {
    std::vector<Offsets> result(layouts_.size());
    while (!layouts_.empty()) {
      auto layout = layouts_.extract(layouts_.begin());
      result[layout.mapped()] = std::move(layout.key());
    }
    return result;
  }

  // Where the state is as it was at an earlier event, but for the numbers of the microbatches, and
  // the events from there on follow again, the same offsets follow. Brent's search for a cycle: one
  // moment is remembered, for twice as long each time.
  void skip_repetitions() {
    const std::size_t period = at_ - remembered_at_;
    if (is_as_remembered()) {
      const std::size_t skipped = repeating_events() / period * period;
      if (skipped > 0) return skip(skipped, period);
    }
    if (period < patience_) return;
    patience_ *= 2;
    if (may_come_back()) remember();
  }

  // Whether as many microbatches are open again, so much later that it is worth a copy of the
  // state; where the pipeline drains they are not.
  bool may_come_back() const {
    const auto open = static_cast<std::size_t>(open_before_[at_]);
    return last_moment_[open] - at_ >= open;
  }

  void remember() {
    remembered_at_ = at_;
    remembered_size_ = pool_.size();
    remembered_ = state_;
  }

  // By how much the microbatches from here on are ahead of those from the remembered moment on.
  int microbatches_ahead() const {
    return events_[at_].microbatch - events_[remembered_at_].microbatch;
  }

  bool is_as_remembered() const {
    if (pool_.size() != remembered_size_) return false;
    if (state_.open.size() != remembered_.open.size()) return false;
    const auto same = [ahead = microbatches_ahead()](const auto& now, const auto& then) {
      const auto& [chunk, microbatch] = then.first;
      return now.first == Owner{chunk, microbatch + ahead} && now.second == then.second;
    };
    return std::equal(state_.open.begin(), state_.open.end(), remembered_.open.begin(),
                      remembered_.open.end(), same) &&
           state_.vacated == remembered_.vacated;
  }

  // How many events from here on are those from the remembered moment on.
  std::size_t repeating_events() const {
    const auto same = [ahead = microbatches_ahead()](const SavedEvent& now, SavedEvent then) {
      then.microbatch += ahead;
      return now == then;
    };
    const auto now = events_.subspan(at_);
    const auto differs =
        std::mismatch(now.begin(), now.end(), events_.subspan(remembered_at_).begin(), same).first;
    return static_cast<std::size_t>(differs - now.begin());
  }

  // `count` events, whole periods.
  void skip(std::size_t count, std::size_t period) {
    const int ahead = microbatches_ahead() * static_cast<int>(count / period);
    for (const std::size_t end = at_ + count; at_ < end; ++at_) {
      const SavedEvent& event = events_[at_];
      if (event.last) layout_of_[index(event)] = layout_of_[index(events_[at_ - period])];
    }
    std::ranges::fill(open_of_, nullptr);
    std::map<Owner, Open> renumbered;
    for (auto& [owner, open] : state_.open) {
      renumbered.emplace(Owner{owner.first, owner.second + ahead}, std::move(open));
    }
    state_.open = std::move(renumbered);
    if (at_ == events_.size() || !may_come_back()) return;
    remember();
    patience_ = 1;
  }

  std::span<const SavedEvent> events_;
  std::span<const SavedLives> lives_;
  std::size_t at_ = 0;
  std::size_t packed_events_ = 0;
  Pool pool_;
  State state_;
  std::map<Offsets, std::size_t> layouts_;  // distinct ones, numbered
  int microbatches_ = 0;
  // By chunk and microbatch: where it is in the state, and its layout when it is done.
  std::vector<Open*> open_of_;
  std::vector<std::size_t> layout_of_;
  std::vector<int> open_before_;          // by event
  std::vector<std::size_t> last_moment_;  // by how many are open
  std::size_t remembered_at_ = 0;
  std::int64_t remembered_size_ = 0;
  State remembered_;
  std::size_t patience_ = 1;
};

}  // namespace

PackedOffsets pack_offsets(std::span<const SavedEvent> events, std::span<const SavedLives> lives,
                           Repetitions repetitions) {
  return Packing(events, lives).run(repetitions);
}

}  // namespace phalanx
