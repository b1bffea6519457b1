#include "phalanx/saving/tile_snapshot.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "phalanx/base/numeric.h"
#include "phalanx/base/progress.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {
namespace {

using Clock = std::chrono::steady_clock;

// What the writer reads at once: an update waits no longer than that.
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;
// A wait that is longer is told to others.
constexpr std::chrono::milliseconds kLongWait{100};

}  // namespace

TileSnapshot::TileSnapshot(Rank& rank, std::span<const SavedTile> tiles, const Tensor& memory,
                           Waiting waiting)
    : states_(rank.parameters().states()),
      has_mains_(rank.parameters().has_main_parameters()),
      waiting_(std::move(waiting)),
      tiles_(tiles_of(states_, tiles)),
      index_(states_.tiles().size() + states_.frozen().size(), -1),
      memory_(memory_for_copies(memory)),
      ring_(memory_.defined() ? memory_.count() : 0) {
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    index_[static_cast<std::size_t>(tiles_[i].number)] = static_cast<int>(i);
  }
  if (std::ranges::any_of(tiles_, &Tile::on_device)) {
    Context& context = rank.context();
    context.backend.wait(context.backend.queue(StreamKind::kCopyOut),
                         context.backend.record(context.queue));
  }
}

std::vector<TileSnapshot::Tile> TileSnapshot::tiles_of(const StateLayout& states,
                                                       std::span<const SavedTile> saved_tiles) {
  std::vector<Tile> tiles;
  for (const SavedTile& saved : saved_tiles) {
    Tile& tile = tiles.emplace_back();
    tile.number = saved.tile;
    tile.in_file = saved.in_file();
    tile.bytes = saved.bytes();
    for (const SavedRange& range : saved.ranges) {
      const bool on_device = !range.in_file && !is_host(range.local.space);
      tile.on_device = tile.on_device || on_device;
      GlobalTensor part =
          shard_tensor(states.table()[range.segment.id], range.local, range.segment.begin);
      part.boxes = range.boxes;
      tile.ranges.push_back({.saved = range,
                             .part = std::move(part),
                             .source = range.in_file || on_device ? nullptr : range.local.data()});
    }
  }
  return tiles;
}

Tensor TileSnapshot::memory_for_copies(const Tensor& given) {
  std::int64_t largest = 0;
  for (const Tile& tile : tiles_) {
    if (tile.on_device) largest = std::max(largest, tile.bytes);
  }
  if (largest == 0 || (given.defined() && given.count() >= largest)) return given;
  // One is written while the next is copied.
  own_memory_.emplace("snapshot of tiles", 2 * round_up(largest, kArenaAlignment));
  return own_memory_->allocate(DType::kU8, {own_memory_->capacity()});
}

Tensor TileSnapshot::elements_of(const Range& range, const TileElements& elements) const {
  if (!range.saved.in_file) return range.saved.local;
  const auto of_tile = [&]() -> Tensor {
    switch (range.saved.column) {
      case SavedRange::Column::kWeight:
        return elements.weight;
      case SavedRange::Column::kMoment:
        return elements.moments.empty() ? Tensor{} : elements.moments[range.saved.moment];
      case SavedRange::Column::kMain:
        return elements.main;
    }
    return {};
  }();
  PHALANX_CHECK(of_tile.defined(), "an update of tile {} that does not read what a save needs",
                range.saved.segment.tile);
  return part_of(of_tile, states_, range.saved.segment);
}

void TileSnapshot::lend(Tile& tile, const TileElements& elements) {
  for (Range& range : tile.ranges) range.source = elements_of(range, elements).data();
  tile.state = State::kLent;
  changed_.notify_all();
}

std::vector<const std::byte*> TileSnapshot::copy(Context& context, const Tile& tile,
                                                 std::int64_t offset,
                                                 const TileElements& elements) const {
  std::vector<const std::byte*> copies;
  for (const Range& range : tile.ranges) {
    const Tensor from = elements_of(range, elements);
    const Tensor to = dense_tensor(*memory_.arena, memory_.offset + offset, from.dtype, from.shape);
    if (is_host(from.space)) {
      ops::copy(context, {.destination = to, .source = from});
    } else if (from.bytes() > 0) {
      // Behind the update before, for which the constructor has made that queue wait; beside what
      // has been enqueued since.
      context.backend.read_back(context.backend.queue(StreamKind::kCopyOut), from,
                                {to.data(), static_cast<std::size_t>(to.bytes())});
    }
    copies.push_back(to.data());
    offset += range.saved.bytes();
  }
  return copies;
}

void TileSnapshot::before_update(Context& context, int number, const TileElements& elements) {
  const int index = index_[static_cast<std::size_t>(number)];
  if (index < 0) return;
  Tile& tile = tiles_[static_cast<std::size_t>(index)];
  Lock lock(mutex_);
  if (needs_nothing(tile)) return wait_for_reader(lock, tile);
  const TimerScope time(waiting_.timers, StepTimer::kSnapshot);
  if (tile.in_file && !tile.on_device) lend(tile, elements);
  const std::optional<std::int64_t> place = wait_for_writer(lock, tile);
  if (!place) return wait_for_reader(lock, tile);
  lock.unlock();
  const auto copies = copy(context, tile, *place, elements);
  lock.lock();
  wait_for_reader(lock, tile);
  if (needs_nothing(tile)) {
    // The writer was faster.
    ring_.give_back_newest();
    return;
  }
  for (std::size_t i = 0; i < copies.size(); ++i) tile.ranges[i].source = copies[i];
  tile.state = State::kCopied;
  changed_.notify_all();
}

void TileSnapshot::wait_for_reader(Lock& lock, const Tile& tile) {
  changed_.wait(lock, [&] { return read_ != &tile; });
}

std::optional<std::int64_t> TileSnapshot::wait_for_writer(Lock& lock, const Tile& tile) {
  std::optional<std::int64_t> place;
  const auto is_over = [&] {
    if (needs_nothing(tile)) return true;
    place = ring_.take(tile.bytes);
    return place.has_value();
  };
  std::shared_ptr<void> is_long;
  std::int64_t written = this->written();
  Clock::time_point since = Clock::now();
  while (!changed_.wait_for(lock, kLongWait, is_over)) {
    note_progress();
    if (!is_long && waiting_.is_long) is_long = waiting_.is_long();
    if (this->written() != written) {
      written = this->written();
      since = Clock::now();
    } else if (Clock::now() - since >= patience()) {
      has_stalled_ = true;
      is_given_up_ = true;
      changed_.notify_all();
    }
  }
  return place;
}

void TileSnapshot::lend_rest(Rank& rank) {
  const auto is_left = [this](const Tile& tile) {
    const std::lock_guard lock(mutex_);
    return tile.must_come() && !needs_nothing(tile);
  };
  if (std::ranges::none_of(tiles_, is_left)) return;
  // Weights that are not trained come with no update.
  for (std::size_t t = states_.tiles().size(); t < index_.size(); ++t) {
    const int index = index_[t];
    if (index < 0 || !tiles_[static_cast<std::size_t>(index)].must_come()) continue;
    before_update(rank.context(), static_cast<int>(t), {});
  }
  const ParameterStore& parameters = rank.parameters();
  std::vector<TileAccess> accesses;
  for (TileAccess access : parameters.accesses(true, false)) {
    if (access.file != nullptr) access.reads = true;
    accesses.push_back(access);
  }
  const std::size_t first_moment = accesses.size();
  const auto is_moment = [](const Range& range) {
    return range.saved.column == SavedRange::Column::kMoment;
  };
  if (std::ranges::any_of(tiles_.front().ranges, is_moment)) {
    for (const std::string_view name : rank.optimizer().state_names()) {
      accesses.push_back({.column = &rank.optimizer().state(name), .writes = false});
    }
  }
  rank.visit(accesses, [&](const StateLayout::Tile& tile, Tensors tensors) {
    const int number = static_cast<int>(&tile - states_.tiles().data());
    const int index = index_[static_cast<std::size_t>(number)];
    if (index < 0 || !tiles_[static_cast<std::size_t>(index)].must_come()) return;
    before_update(
        rank.context(), number,
        {.main = tensors[0], .weight = tensors[1], .moments = tensors.subspan(first_moment)});
  });
}

bool TileSnapshot::must_be_lent() const {
  return has_mains_ && std::ranges::any_of(tiles_, [](const Tile& tile) {
           return std::ranges::any_of(tile.ranges, [](const Range& range) {
             return range.saved.in_file && range.saved.column == SavedRange::Column::kWeight;
           });
         });
}

void TileSnapshot::give_up() {
  Lock lock(mutex_);
  is_given_up_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return read_ == nullptr; });
}

bool TileSnapshot::is_given_up() const {
  const std::lock_guard lock(mutex_);
  return is_given_up_;
}

bool TileSnapshot::has_stalled() const {
  const std::lock_guard lock(mutex_);
  return has_stalled_;
}

std::chrono::milliseconds TileSnapshot::patience() const {
  // Before its first byte the writer waits for the leader, and after its last one for the disk.
  constexpr int kLonger = 10;
  return waiting_.stalled_after * (has_begun_ && !is_all_written_ ? 1 : kLonger);
}

Clock::time_point TileSnapshot::still_since() const {
  return has_begun_ && !is_all_written_ ? moved_.load() : Clock::now();
}

void TileSnapshot::begin_writing() {
  moved_ = Clock::now();
  has_begun_ = true;
}

std::int64_t TileSnapshot::read_some(const Tile& tile, Position& at, std::span<std::byte> to) {
  std::size_t filled = 0;
  while (filled < to.size() && at.range < tile.ranges.size()) {
    const Range& range = tile.ranges[at.range];
    const ParamBox& box = range.part.boxes[at.box];
    const std::int64_t size = size_of(range.saved.local.dtype);
    // Rows that follow each other in memory are read at once.
    const std::int64_t rows = box.columns == range.part.row_length() ? box.rows : 1;
    const std::int64_t bytes = rows * box.columns * size;
    const auto now = std::min(to.size() - filled, static_cast<std::size_t>(bytes - at.byte));
    std::memcpy(to.data() + filled,
                range.source + range.part.local_element(box, at.row) * size + at.byte, now);
    filled += now;
    at.byte += static_cast<std::int64_t>(now);
    if (at.byte < bytes) continue;
    at.byte = 0;
    at.row += rows;
    if (at.row < box.rows) continue;
    at.row = 0;
    if (++at.box < range.part.boxes.size()) continue;
    at.box = 0;
    ++at.range;
  }
  return static_cast<std::int64_t>(filled);
}

void TileSnapshot::stream(PartWriter& writer, const std::function<void()>& sign) {
  Lock lock(mutex_);
  for (Tile& tile : tiles_) {
    const auto is_here = [&] {
      return is_given_up_ || !tile.must_come() || tile.state != State::kInPlace;
    };
    while (!changed_.wait_for(lock, kLongWait, is_here)) {
      lock.unlock();
      sign();
      lock.lock();
    }
    Position at;
    while (at.range < tile.ranges.size()) {
      lock.unlock();
      std::span<std::byte> room = writer.room();
      room = room.first(std::min(room.size(), kReadAtOnce));
      lock.lock();
      if (is_given_up_) throw SaveGivenUp();
      read_ = &tile;
      lock.unlock();
      const std::int64_t bytes = read_some(tile, at, room);
      lock.lock();
      read_ = nullptr;
      changed_.notify_all();
      lock.unlock();
      writer.fill(bytes);
      written_.fetch_add(bytes, std::memory_order_relaxed);
      moved_ = Clock::now();
      sign();
      lock.lock();
    }
    if (is_given_up_) throw SaveGivenUp();
    if (tile.state == State::kCopied) ring_.give_back_oldest();
    tile.state = State::kWritten;
    changed_.notify_all();
  }
  is_all_written_ = true;
}

}  // namespace phalanx
