#pragma once
// A rank's memory.

#include <cstdint>
#include <vector>

#include "phalanx/rank/rank_folders.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/tensor/arena.h"

namespace phalanx {

// A rank's memory by what it is for; the rows of the plan.
struct RankArenas {
  Arena parameters, main_parameters, gradients, optimizer, saved, workspace, communication;
  Arena constants;
  Arena staging;  // through which states that lie in files come and go
  // Where these files are; none in plans, which make no files.
  RankFolders folders = {};

  static RankArenas planning();
  // The high-water mark of every arena, in the order above.
  std::vector<std::int64_t> high_water() const;
  std::vector<const Arena*> all() const;
  // What comes after is told apart from what was before.
  void forget_high_water();
};

// How far the arenas go, in their order, while a program runs.
struct ProgramMemory {
  ProgramSize size;
  std::vector<std::int64_t> bytes;

  std::int64_t total() const;
  friend bool operator==(const ProgramMemory&, const ProgramMemory&) = default;
};

}  // namespace phalanx
