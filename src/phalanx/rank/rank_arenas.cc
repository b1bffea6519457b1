#include "phalanx/rank/rank_arenas.h"

#include <algorithm>
#include <string>

namespace phalanx {
namespace {

// The row's key with blanks: "main parameters".
std::string arena_name(const MemoryRowInfo& row) {
  std::string name(row.key);
  std::ranges::replace(name, '_', ' ');
  return name;
}

}  // namespace

RankArenas RankArenas::planning() {
  RankArenas arenas;
  for (const MemoryRowInfo& row : kMemoryRows) {
    arenas.arenas_.push_back(Arena::planning(arena_name(row)));
  }
  return arenas;
}

RankArenas::RankArenas(const MemoryBytes& bytes, ArenaMemory& memory) {
  for (std::size_t row = 0; row < kMemoryRows.size(); ++row) {
    const MemoryRowInfo& info = kMemoryRows[row];
    arenas_.emplace_back(arena_name(info), bytes.rows[row],
                         info.is_on_host ? host_memory() : memory);
  }
}

MemoryBytes RankArenas::high_water() const {
  MemoryBytes marks;
  std::ranges::transform(arenas_, marks.rows.begin(), &Arena::high_water);
  return marks;
}

void RankArenas::forget_high_water() {
  for (Arena& arena : arenas_) arena.forget_high_water();
}

}  // namespace phalanx
