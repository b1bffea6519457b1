#include "phalanx/start/populate_arenas.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/first_touch.h"
#include "phalanx/rank/gather.h"

namespace phalanx {
namespace {

// Of one rank.
class PopulatedArenas {
 public:
  PopulatedArenas(std::span<const Arena> arenas, int threads) {
    for (const Arena& arena : arenas) {
      if (!is_host(arena.space())) continue;  // a device has all of it at once
      arenas_.emplace_back(threads, arena);
      total_ += arena.capacity();
    }
  }
  std::int64_t total() const { return total_; }
  std::int64_t left() const {
    std::int64_t bytes = 0;
    for (const cpu::FirstTouch& arena : arenas_) bytes += arena.left();
    return bytes;
  }
  // Takes several small arenas as one block.
  void take(std::int64_t bytes) {
    for (cpu::FirstTouch& arena : arenas_) {
      const std::int64_t before = arena.left();
      if (before == 0) continue;
      arena.take(std::min(bytes, before));
      bytes -= before - arena.left();
      if (bytes <= 0) return;
    }
  }

 private:
  std::vector<cpu::FirstTouch> arenas_;
  std::int64_t total_ = 0;
};

// The sum over the ranks of a host.
std::int64_t of_host(int host, std::span<const RankPlace> places,
                     const std::vector<std::int64_t>& numbers) {
  std::int64_t sum = 0;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].host == host) sum += numbers[rank];
  }
  return sum;
}

[[noreturn]] void refuse(std::int64_t total, std::int64_t left, int ranks,
                         const AvailableMemory& available) {
  throw SystemError(
      "this machine has not the memory that was planned for {} rank{}: {} of {} are still to be "
      "taken, and {} are available ({}): other programs have taken it since the run was planned. "
      "End those, or give --allow-overcommit to begin nevertheless",
      ranks, ranks == 1 ? "" : "s", format_bytes(left), format_bytes(total),
      format_bytes(available.bytes), available.limit);
}

}  // namespace

void populate_arenas(Communicator& world, Context& context, std::span<const RankPlace> places,
                     std::span<const Arena> arenas, const PopulateOptions& options) {
  const auto busy = world.busy("taking the memory of its arenas");
  const RankPlace& here = places[static_cast<std::size_t>(world.rank())];
  const bool leads = here.local_rank == 0;
  PopulatedArenas memory(arenas, options.threads);
  const std::int64_t total =
      of_host(here.host, places, gather_numbers(world, context, memory.total()));
  while (true) {
    // When all numbers have arrived, every rank has taken its last block, ...
    const auto lefts = gather_numbers(world, context, memory.left());
    if (std::ranges::all_of(lefts, [](std::int64_t left) { return left == 0; })) return;
    // ... and it takes the next one when each host's first rank has measured what is available.
    const AvailableMemory available = leads ? options.available() : AvailableMemory{};
    const auto availables = gather_numbers(world, context, leads ? available.bytes : 0);
    bool is_enough = true;
    for (const RankPlace& place : places) {
      if (place.local_rank != 0) continue;
      const std::int64_t left = of_host(place.host, places, lefts);
      if (left <= of_host(place.host, places, availables)) continue;
      if (leads && place.host == here.host) refuse(total, left, here.local_size, available);
      is_enough = false;
    }
    if (!is_enough) world.barrier(context);  // ends with the error of that host's first rank
    memory.take(options.block_bytes);
  }
}

}  // namespace phalanx
