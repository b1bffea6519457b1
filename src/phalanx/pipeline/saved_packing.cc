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
struct OpenMicrobatch {
  Offsets offsets;      // of the tensors born so far
  unsigned events = 0;  // a bit for each kind that has happened: together they tell what lives
  int live = 0;         // number of tensors that live

  friend bool operator==(const OpenMicrobatch&, const OpenMicrobatch&) = default;
};

// The places that tensors of one kind have left, the latest last; other tensors may use some now.
using Vacated = std::vector<std::int64_t>;
// More places are forgotten, the earliest first. In a steady state few are free at a time.
constexpr std::size_t kVacatedPlaces = 16;

// All that later offsets depend on, besides the later events and the pool's size.
struct State {
  std::map<Owner, OpenMicrobatch> open;
  std::vector<Vacated> vacated;  // by kind
};

class Packing {
 public:
  Packing(std::span<const SavedEvent> events, std::span<const SavedLives> lives)
      : events_(events), lives_(lives) {
    std::size_t kind_count = 0;
    for (const SavedLives& chunk : lives) {
      for (const std::size_t kinds : chunk.kinds) {
        kind_count = std::max(kind_count, kinds + 1);
      }
    }
    state_.vacated.resize(kind_count);
    for (const SavedEvent& event : events) {
      microbatches_ = std::max(microbatches_, event.microbatch + 1);
    }
    open_of_.resize(lives.size() * static_cast<std::size_t>(microbatches_), nullptr);
    layout_of_.resize(open_of_.size(), PackedOffsets::kNoLayout);
    count_open();
    remember();
  }

  PackedOffsets run(Repetitions repetitions) {
    while (position_ < events_.size()) {
      apply(events_[position_++]);
      ++packed_events_;
      if (repetitions == Repetitions::kSkipped && position_ < events_.size()) skip_repetitions();
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
  OpenMicrobatch& open_at(const SavedEvent& event) {
    OpenMicrobatch*& open = open_of_[index(event)];
    if (open == nullptr) open = &state_.open[owner_of(event)];
    return *open;
  }

  // Counts the open microbatches before each event, and the last event before which so many are
  // open.
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

  void apply(const SavedEvent& event) {
    const SavedLives& lives = lives_[static_cast<std::size_t>(event.chunk)];
    OpenMicrobatch& open = open_at(event);
    if (event.first) open.offsets.assign(lives.bytes.size(), 0);
    open.events |= 1U << static_cast<unsigned>(event.kind);
    for (const TensorChange& change : lives.changes(event.kind)) {
      const std::int64_t bytes = lives.bytes[change.tensor];
      std::int64_t& offset = open.offsets[change.tensor];
      Vacated& vacated = state_.vacated[lives.kinds[change.tensor]];
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
    OpenMicrobatch& open = found->second;
    PHALANX_CHECK(open.live == 0, "microbatch {} on chunk {}: {} more tensors are born than die",
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

  // If the state equals that of an earlier event, except for the numbers of the microbatches, and
  // the same events follow, then the same offsets follow. Brent's search for a cycle: one event is
  // remembered, for twice as long each time.
  void skip_repetitions() {
    const std::size_t period = position_ - remembered_at_;
    if (is_as_remembered()) {
      const std::size_t skipped = repeating_events() / period * period;
      if (skipped > 0) return skip(skipped, period);
    }
    if (period < patience_) return;
    patience_ *= 2;
    if (may_come_back()) remember();
  }

  // Whether as many microbatches will be open again, late enough that copying the state is worth
  // it; not so where the pipeline drains.
  bool may_come_back() const {
    const auto open = static_cast<std::size_t>(open_before_[position_]);
    return last_moment_[open] - position_ >= open;
  }

  void remember() {
    remembered_at_ = position_;
    remembered_size_ = pool_.size();
    remembered_ = state_;
  }

  // The difference between microbatch numbers from here on and from the remembered event on.
  int microbatches_ahead() const {
    return events_[position_].microbatch - events_[remembered_at_].microbatch;
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

  // How many events from here on repeat those from the remembered event on.
  std::size_t repeating_events() const {
    const auto same = [ahead = microbatches_ahead()](const SavedEvent& now, SavedEvent then) {
      then.microbatch += ahead;
      return now == then;
    };
    const auto now = events_.subspan(position_);
    const auto differs =
        std::mismatch(now.begin(), now.end(), events_.subspan(remembered_at_).begin(), same).first;
    return static_cast<std::size_t>(differs - now.begin());
  }

  // Skips `count` events, which are whole periods.
  void skip(std::size_t count, std::size_t period) {
    const int ahead = microbatches_ahead() * static_cast<int>(count / period);
    for (const std::size_t end = position_ + count; position_ < end; ++position_) {
      const SavedEvent& event = events_[position_];
      if (event.last) layout_of_[index(event)] = layout_of_[index(events_[position_ - period])];
    }
    std::ranges::fill(open_of_, nullptr);
    std::map<Owner, OpenMicrobatch> renumbered;
    for (auto& [owner, open] : state_.open) {
      renumbered.emplace(Owner{owner.first, owner.second + ahead}, std::move(open));
    }
    state_.open = std::move(renumbered);
    if (position_ == events_.size() || !may_come_back()) return;
    remember();
    patience_ = 1;
  }

  std::span<const SavedEvent> events_;
  std::span<const SavedLives> lives_;
  std::size_t position_ = 0;
  std::size_t packed_events_ = 0;
  Pool pool_;
  State state_;
  std::map<Offsets, std::size_t> layouts_;  // distinct ones, numbered
  int microbatches_ = 0;
  // By chunk and microbatch: its entry in the state, and its layout after its last event.
  std::vector<OpenMicrobatch*> open_of_;
  std::vector<std::size_t> layout_of_;
  std::vector<int> open_before_;          // by event
  std::vector<std::size_t> last_moment_;  // by the number that are open
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
