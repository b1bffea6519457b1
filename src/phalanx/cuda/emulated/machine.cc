#include "phalanx/cuda/emulated/machine.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cuda/emulated/fiber.h"
#include "phalanx/cuda/emulated/sanitizer.h"
#include "phalanx/cuda/emulated/warp_operations.h"
#include "phalanx/cuda/kernel.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace phalanx::cuda {
namespace {

constexpr int kLanes = 32;
constexpr std::uint32_t kAllLanes = 0xffffffffU;
constexpr std::int64_t kGap = 128;  // between shared arrays
constexpr int kMostArrays = 24;
// Sanitizers take stack, and only what is touched is memory.
constexpr std::size_t kStackBytes = std::size_t{PHALANX_TSAN || PHALANX_ASAN ? 256 : 64} << 10;

// Small numbers become zero on a device (-ftz=true), in operands and in results.
class FlushToZero {
 public:
#if defined(__x86_64__)
  FlushToZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040U); }
  ~FlushToZero() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#endif
};

std::byte* map_pages(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw SystemError("no {} bytes for the emulated machine", bytes);
  return static_cast<std::byte*>(memory);
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Splitmix64.
class Draws {
 public:
  void seed(std::uint64_t seed) { state_ = seed; }
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  int below(int n) {
    return static_cast<int>((next() >> 32) * static_cast<std::uint64_t>(n) >> 32);
  }

 private:
  std::uint64_t state_ = 0;
};

struct Unit {
  enum class Waits : std::uint8_t { kNot, kBarrier, kWarp, kEnded };

  Fiber fiber;
  Thread thread;
  Waits waits = Waits::kNot;
  WarpOp op = WarpOp::kSyncWarp;  // that it waits for
  const char* file = nullptr;     // where it waits
  int line = 0;
  unsigned operations = 0;  // of the warp, in this block
};

// Where lanes of a warp leave their operands; two in turn.
struct Slot {
  WarpOp op;
  const char* file;
  int line;
  int first_lane;
  int count = 0;
  WarpOperand operands[kLanes];
  WarpOperand results[kLanes];
};

struct WarpState {
  std::uint32_t ready = 0;
  Slot slots[2];
};

// The fibers of one owner for every second block.
struct Team {
  std::vector<std::unique_ptr<Unit>> units;
  char begin = 0;
  char end = 0;
};

struct SharedArray {
  std::int64_t offset;
  std::int64_t bytes;
};

}  // namespace

class Machine::Body {
 public:
  static Body* running;

  ~Body() {
    for (auto& [key, team] : teams_) {
      for (auto& unit : team.units) {
#if PHALANX_TSAN
        if (unit->fiber.tsan != nullptr) __tsan_destroy_fiber(unit->fiber.tsan);
#endif
        munmap(unit->fiber.stack, kStackBytes);
      }
    }
    if (shared_ != nullptr) munmap(shared_, shared_capacity_);
  }

  std::uint64_t seed = 0;
  bool backwards = false;
  std::vector<BarrierPlace> dropped;
  struct Noted {
    const char* file;
    int line;
    const char* kind;
  };
  std::array<Noted, 256> noted{};
  int noted_count = 0;
  std::int64_t conflicts = 0;
  std::int64_t switches = 0;

  void run(const Kernel& kernel, Grid grid, BlockShape shape, const void* params, int owner) {
    PHALANX_CHECK(running == nullptr, "the emulated machine is running");
    PHALANX_CHECK(shape.threads % kLanes == 0 && shape.threads > 0 && shape.threads <= 1024,
                  "{}: {} threads a block", kernel.name, shape.threads);
    PHALANX_CHECK(grid.x > 0 && grid.x < (std::int64_t{1} << 31) && grid.y > 0 &&
                      grid.y < (1 << 16) && grid.z > 0 && grid.z < (1 << 16),
                  "{}: a grid of {} x {} x {} blocks", kernel.name, grid.x, grid.y, grid.z);
    // What an H100 has; below it 99 KiB on the smallest that Phalanx runs on.
    PHALANX_CHECK(shape.shared_bytes <= 227 << 10, "{}: {} bytes of shared memory", kernel.name,
                  shape.shared_bytes);
    kernel_ = &kernel;
    grid_ = grid;
    shape_ = shape;
    params_ = params;
    failure_.clear();
    failed_ = false;
    draws_.seed(seed * 0x2545F4914F6CDD1DU);
#if PHALANX_TSAN
    host_.tsan = __tsan_get_current_fiber();
#endif
    const std::int64_t count = grid.x * grid.y * grid.z;
    {
      const FlushToZero flush;
      running = this;
      for (std::int64_t i = 0; i < count && !failed_; ++i) {
        // Under ThreadSanitizer two sets of threads take turns: a thread is ordered with itself.
        Team& team = team_of(PHALANX_TSAN ? 2 * owner + static_cast<int>(i % 2) : 0);
        run_block(team, backwards ? count - 1 - i : i);
      }
      running = nullptr;
    }
    for (const auto& [memory, bytes] : used_) munmap(memory, bytes);
    used_.clear();
    if (failed_) {
      tell_acquire(&failed_);
      end_abandoned();
      make_new_ = true;
      throw InternalError("{}, block ({}, {}, {}): {}", kernel.name, block_[0], block_[1],
                          block_[2], failure_);
    }
    for (int parity = 0; parity < 2; ++parity) {
      const auto team = teams_.find(2 * owner + parity);
      if (team != teams_.end()) tell_acquire(&team->second.end);
    }
  }

  [[noreturn]] void fail(std::string message) {
    failure_ = std::move(message);
    abandon();
  }

  bool is_dropped(const char* kind, const char* file, int line) {
    note(kind, file, line);
    if (dropped.empty()) return false;
    const std::string_view name = last_part(file);
    return std::any_of(dropped.begin(), dropped.end(), [&](const BarrierPlace& place) {
      return place.line == line && place.file == name && place.kind == kind;
    });
  }

  void barrier(int index, const char* file, int line) {
    if (is_dropped("sync", file, line)) return;
    Unit& unit = *team_->units[static_cast<std::size_t>(index)];
    if (arrived_ == 0) {
      barrier_file_ = file;
      barrier_line_ = line;
      first_arrived_ = index;
    } else if (barrier_line_ != line || last_part(barrier_file_) != last_part(file)) {
      fail(fmt::format("barriers of different lines: thread {} at {}:{}, thread {} at {}:{}",
                       first_arrived_, last_part(barrier_file_), barrier_line_, index,
                       last_part(file), line));
    }
    char* sync = syncs_ + phase_ % 2;
    tell_release(sync);
    ++arrived_;
    unit.waits = Unit::Waits::kBarrier;
    unit.file = file;
    unit.line = line;
    if (arrived_ == shape_.threads) {
      arrived_ = 0;
      ++phase_;
      for (WarpState& warp : warps_) warp.ready = kAllLanes;
      draw_order();
    } else {
      warps_[static_cast<std::size_t>(index / kLanes)].ready &= ~(1U << index % kLanes);
    }
    leave(unit);
    unit.waits = Unit::Waits::kNot;
    tell_acquire(sync);
  }

  void together(int index, WarpOp op, WarpOperand& operand, const char* file, int line) {
    if (op == WarpOp::kSyncWarp && is_dropped("sync_warp", file, line)) return;
    const auto w = static_cast<std::size_t>(index / kLanes);
    const int lane = index % kLanes;
    Unit& unit = *team_->units[static_cast<std::size_t>(index)];
    WarpState& warp = warps_[w];
    const unsigned turn = unit.operations++ % 2;
    Slot& slot = warp.slots[turn];
    if (slot.count == 0) {
      slot.op = op;
      slot.file = file;
      slot.line = line;
      slot.first_lane = lane;
    } else if (slot.op != op || slot.line != line) {
      fail(fmt::format("a diverged warp: lane {} at {}, line {}, others at {}, line {}", lane,
                       name_of(op), line, name_of(slot.op), slot.line));
    }
    char* sync = syncs_ + 2 + 2 * w + turn;
    if (op == WarpOp::kSyncWarp) tell_release(sync);
    slot.operands[lane] = operand;
    unit.waits = Unit::Waits::kWarp;
    unit.op = op;
    unit.file = file;
    unit.line = line;
    if (++slot.count == kLanes) {
      conflicts += compute_warp_operation(op, slot.operands, slot.results);
      slot.count = 0;
      warp.ready = kAllLanes;
    } else {
      warp.ready &= ~(1U << lane);
    }
    leave(unit);
    unit.waits = Unit::Waits::kNot;
    operand = slot.results[lane];
    if (op == WarpOp::kSyncWarp) tell_acquire(sync);
  }

  std::byte* carve(int number, std::int64_t bytes) {
    if (number < array_count_) {
      const SharedArray& array = arrays_[static_cast<std::size_t>(number)];
      if (array.bytes != bytes) {
        fail(fmt::format("shared array {} has {} bytes in one thread and {} in another", number,
                         array.bytes, bytes));
      }
      return shared_ + array.offset;
    }
    if (number == kMostArrays) fail("too many shared arrays");
    if (carved_ + bytes > shape_.shared_bytes) {
      fail(fmt::format("shared arrays of {} bytes where the launch has {}", carved_ + bytes,
                       shape_.shared_bytes));
    }
    arrays_[static_cast<std::size_t>(number)] = {carved_end_, bytes};
    ++array_count_;
    std::byte* array = shared_ + carved_end_;
    tell_unpoison(array, static_cast<std::size_t>(bytes));
    carved_ = round_up(carved_ + bytes, 128);
    carved_end_ = round_up(carved_end_ + bytes, 128) + kGap;
    return array;
  }

  // The life of a fiber: a thread of a block, then the next.
  [[noreturn]] static void live() {
    Body& body = *running;
    Unit& unit = *body.current_;
    finish_first_switch(unit.fiber);
    for (;;) body.run_thread(unit);
  }

 private:
  friend class Machine;

  Team& team_of(int key) {
    Team& team = teams_[key];
    if (make_new_) {
      // Fibers of a run that failed are somewhere in it.
      for (auto& [other_key, other] : teams_) {
        for (auto& unit : other.units)
          make_fiber(unit->fiber, unit->fiber.stack, kStackBytes, live);
      }
      make_new_ = false;
    }
    while (team.units.size() < static_cast<std::size_t>(shape_.threads)) {
      auto unit = std::make_unique<Unit>();
      make_fiber(unit->fiber, map_pages(kStackBytes), kStackBytes, live);
#if PHALANX_TSAN
      unit->fiber.tsan = __tsan_create_fiber(0);
#endif
      team.units.push_back(std::move(unit));
    }
    return team;
  }

  void run_block(Team& team, std::int64_t number) {
    team_ = &team;
    block_[0] = number % grid_.x;
    block_[1] = number / grid_.x % grid_.y;
    block_[2] = number / grid_.x / grid_.y;
    prepare_shared();
    warps_.resize(static_cast<std::size_t>(shape_.threads / kLanes));
    for (WarpState& warp : warps_) {
      warp.ready = kAllLanes;
      for (Slot& slot : warp.slots) slot.count = 0;
    }
    for (int i = 0; i < shape_.threads; ++i) {
      Unit& unit = *team.units[static_cast<std::size_t>(i)];
      unit.waits = Unit::Waits::kNot;
      unit.operations = 0;
      Thread& thread = unit.thread;
      thread = Thread();
      thread.machine_ = machine_;
      thread.index_ = i;
      thread.threads_ = shape_.threads;
      for (int d = 0; d < 3; ++d) thread.block_[d] = block_[d];
      thread.blocks_[0] = grid_.x;
      thread.blocks_[1] = grid_.y;
      thread.blocks_[2] = grid_.z;
    }
    arrived_ = 0;
    phase_ = 0;
    ended_ = 0;
    draw_order();
    tell_release(&team.begin);
    current_ = next_unit();
    ++switches;
    go(host_, current_->fiber);
    if (!failed_) check_gaps();
  }

  void run_thread(Unit& unit) {
    tell_acquire(&team_->begin);
    kernel_->run(unit.thread, params_);
    if (unit.thread.copy_count_ > 0) {
      fail(fmt::format("thread {} ends with {} copies under way", unit.thread.index_,
                       unit.thread.copy_count_));
    }
    tell_release(&team_->end);
    unit.waits = Unit::Waits::kEnded;
    const int index = unit.thread.index_;
    warps_[static_cast<std::size_t>(index / kLanes)].ready &= ~(1U << index % kLanes);
    ++ended_;
    leave(unit);
  }

  // Fresh memory for a block: NaN, with gaps, and closed until arrays are carved.
  void prepare_shared() {
    const std::int64_t bytes = round_up(shape_.shared_bytes, 128) + kMostArrays * (kGap + 128);
    const std::int64_t with_syncs = bytes + 2 + 2 * kLanes;
    const auto capacity = static_cast<std::size_t>(round_up(with_syncs, 4096));
    if (PHALANX_TSAN || capacity > shared_capacity_) {
      // Used memory, and addresses of barriers, would order blocks.
      if (PHALANX_TSAN) {
        shared_ = nullptr;
      } else if (shared_ != nullptr) {
        munmap(shared_, shared_capacity_);
      }
      shared_ = map_pages(capacity);
      shared_capacity_ = capacity;
      if (PHALANX_TSAN) used_.emplace_back(shared_, capacity);
    }
    tell_unpoison(shared_, shared_capacity_);
    std::memset(shared_, 0xff, static_cast<std::size_t>(bytes));
    syncs_ = reinterpret_cast<char*>(shared_ + bytes);
    shared_bytes_ = bytes;
    tell_poison(shared_, static_cast<std::size_t>(bytes));
    array_count_ = 0;
    carved_ = 0;
    carved_end_ = kGap;
  }

  void check_gaps() {
    tell_unpoison(shared_, static_cast<std::size_t>(shared_bytes_));
    std::int64_t at = 0;
    for (int i = 0; i <= array_count_; ++i) {
      const bool last = i == array_count_;
      const std::int64_t end = last ? carved_end_ : arrays_[static_cast<std::size_t>(i)].offset;
      for (; at < end; ++at) {
        if (shared_[at] != std::byte{0xff}) {
          failure_ = fmt::format("something was written beyond shared array {}", i - 1);
          failed_ = true;
          return;
        }
      }
      if (!last) at += arrays_[static_cast<std::size_t>(i)].bytes;
    }
  }

  void draw_order() {
    const auto count = warps_.size();
    order_.resize(count);
    for (std::size_t w = 0; w < count; ++w) order_[w] = static_cast<int>(w);
    runs_ahead_ = true;
    if (seed == 0) return;
    for (std::size_t w = count; w > 1; --w) {
      std::swap(order_[w - 1], order_[static_cast<std::size_t>(draws_.below(static_cast<int>(w)))]);
    }
    runs_ahead_ = draws_.below(4) != 0;
  }

  // The thread that goes on; null if none can.
  Unit* next_unit() {
    int w = -1;
    if (runs_ahead_) {
      for (const int candidate : order_) {
        if (warps_[static_cast<std::size_t>(candidate)].ready == 0) continue;
        w = candidate;
        break;
      }
    } else {
      const int count = static_cast<int>(warps_.size());
      const int start = draws_.below(count);
      for (int i = 0; i < count && w < 0; ++i) {
        const int candidate = (start + i) % count;
        if (warps_[static_cast<std::size_t>(candidate)].ready != 0) w = candidate;
      }
    }
    if (w < 0) return nullptr;
    std::uint32_t ready = warps_[static_cast<std::size_t>(w)].ready;
    if (seed != 0) {
      // Any of the ready lanes.
      for (int skip = draws_.below(__builtin_popcount(ready)); skip > 0; --skip) ready &= ready - 1;
    }
    return team_->units[static_cast<std::size_t>(kLanes * w + __builtin_ctz(ready))].get();
  }

  // Gives way to the thread that goes on, which may be this one.
  void leave(Unit& unit) {
    Unit* next = next_unit();
    if (next == &unit) return;
    if (next == nullptr) {
      if (ended_ < shape_.threads) {
        describe_standstill();
        abandon();
      }
      go(unit.fiber, host_);
      return;
    }
    ++switches;
    current_ = next;
    go(unit.fiber, next->fiber);
  }

  // What threads did that were left in the middle happened before what comes.
  void end_abandoned() {
#if PHALANX_TSAN
    for (auto& unit : team_->units) {
      __tsan_switch_to_fiber(unit->fiber.tsan, __tsan_switch_to_fiber_no_sync);
      tell_release(&team_->end);
      __tsan_switch_to_fiber(host_.tsan, __tsan_switch_to_fiber_no_sync);
    }
    tell_acquire(&team_->end);
#endif
  }

  void describe_standstill() {
    for (int i = 0; i < shape_.threads; ++i) {
      const Unit& unit = *team_->units[static_cast<std::size_t>(i)];
      if (unit.waits == Unit::Waits::kEnded || unit.waits == Unit::Waits::kNot) continue;
      const std::string what = unit.waits == Unit::Waits::kBarrier
                                   ? std::string("the barrier")
                                   : fmt::format("the {}", name_of(unit.op));
      failure_ = fmt::format("thread {} waits for ever at {} of {}:{}; {} threads have ended", i,
                             what, last_part(unit.file), unit.line, ended_);
      return;
    }
  }

  [[noreturn]] void abandon() {
    failed_ = true;
    tell_release(&failed_);  // the message
    go(current_->fiber, host_);
    __builtin_unreachable();
  }

  // Without memory from the heap, and without functions that ThreadSanitizer looks at.
  void note(const char* kind, const char* file, int line) {
    for (int i = 0; i < noted_count; ++i) {
      const Noted& other = noted[static_cast<std::size_t>(i)];
      if (other.line == line && other.file == file && other.kind == kind) return;
    }
    if (noted_count < static_cast<int>(noted.size())) {
      noted[static_cast<std::size_t>(noted_count++)] = {file, line, kind};
    }
  }

  Machine* machine_ = nullptr;
  const Kernel* kernel_ = nullptr;
  const void* params_ = nullptr;
  Grid grid_;
  BlockShape shape_;
  std::array<std::int64_t, 3> block_{};

  Draws draws_;
  Fiber host_;
  std::map<int, Team> teams_;
  bool make_new_ = false;
  Team* team_ = nullptr;
  Unit* current_ = nullptr;
  std::vector<WarpState> warps_;
  std::vector<int> order_;
  bool runs_ahead_ = true;

  int arrived_ = 0;
  int first_arrived_ = 0;
  const char* barrier_file_ = nullptr;
  int barrier_line_ = 0;
  unsigned phase_ = 0;
  int ended_ = 0;

  std::byte* shared_ = nullptr;
  std::size_t shared_capacity_ = 0;
  std::int64_t shared_bytes_ = 0;
  char* syncs_ = nullptr;  // what stands for barriers: 2 of the block, 2 of every warp
  std::vector<std::pair<void*, std::size_t>> used_;
  std::array<SharedArray, kMostArrays> arrays_{};
  int array_count_ = 0;
  std::int64_t carved_ = 0;      // bytes, as on a device
  std::int64_t carved_end_ = 0;  // with gaps

  bool failed_ = false;
  std::string failure_;
};

Machine::Body* Machine::Body::running = nullptr;

Machine::Machine() : body_(std::make_unique<Body>()) { body_->machine_ = this; }
Machine::~Machine() = default;
void Machine::set_seed(std::uint64_t seed) { body_->seed = seed; }
void Machine::set_backwards(bool backwards) { body_->backwards = backwards; }
void Machine::drop(const BarrierPlace& place) { body_->dropped.push_back(place); }
void Machine::drop_nothing() { body_->dropped.clear(); }
std::vector<BarrierPlace> Machine::take_places() {
  std::vector<BarrierPlace> places;
  const int count = std::exchange(body_->noted_count, 0);
  for (int i = 0; i < count; ++i) {
    const Body::Noted& noted = body_->noted[static_cast<std::size_t>(i)];
    BarrierPlace place{std::string(last_part(noted.file)), noted.line, noted.kind};
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  }
  return places;
}
std::int64_t Machine::take_conflicts() { return std::exchange(body_->conflicts, 0); }
std::int64_t Machine::take_switches() { return std::exchange(body_->switches, 0); }
void Machine::run(const Kernel& kernel, Grid grid, BlockShape shape, const void* params,
                  int owner) {
  body_->run(kernel, grid, shape, params, owner);
}

Machine& emulated_machine() {
  static Machine machine;
  return machine;
}

void Thread::sync(const char* file, int line) { machine_->body().barrier(index_, file, line); }
void Thread::sync_warp(const char* file, int line) {
  WarpOperand nothing{};
  together(WarpOp::kSyncWarp, nothing, file, line);
}
void Thread::together(WarpOp op, WarpOperand& operand, const char* file, int line) {
  machine_->body().together(index_, op, operand, file, line);
}
std::byte* Thread::carve(std::int64_t bytes) { return machine_->body().carve(carved_++, bytes); }
bool Thread::dropped(const char* kind, const char* file, int line) {
  return machine_->body().is_dropped(kind, file, line);
}

void emulated_fault(const char* message) {
  if (Machine::Body::running == nullptr) throw InternalError("{}", message);
  Machine::Body::running->fail(message);
}

}  // namespace phalanx::cuda
