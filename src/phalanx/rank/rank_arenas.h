#pragma once
// A rank's memory.

#include <vector>

#include "phalanx/rank/rank_folders.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/tensor/arena.h"
#include "phalanx/tensor/memory_rows.h"

namespace phalanx {

// An arena for each of kMemoryRows.
class RankArenas {
 public:
  static RankArenas planning();
  // Arenas of exactly these sizes: what kernels read in `memory`, what only the host reads in host
  // memory. SystemError where there is not that much memory.
  explicit RankArenas(const MemoryBytes& bytes, ArenaMemory& memory = host_memory());

  Arena& operator[](MemoryRow row) { return arenas_[row.index()]; }
  const Arena& operator[](MemoryRow row) const { return arenas_[row.index()]; }
  // In the order of kMemoryRows.
  const std::vector<Arena>& all() const { return arenas_; }
  MemoryBytes high_water() const;
  // The marks of what comes after begin anew.
  void forget_high_water();

  // Where the rank's files are; none in plans, which make no files.
  RankFolders folders = {};

 private:
  RankArenas() = default;

  std::vector<Arena> arenas_;
};

// How far the arenas go while a program runs.
struct ProgramMemory {
  ProgramSize size;
  MemoryBytes bytes;

  friend bool operator==(const ProgramMemory&, const ProgramMemory&) = default;
};

}  // namespace phalanx
