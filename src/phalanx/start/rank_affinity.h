#pragma once
// Which cores the ranks of a run are bound to, so that the threads of a rank and its memory stay
// together.

#include <span>
#include <string>
#include <vector>

#include "phalanx/settings/train_config.h"
#include "phalanx/start/openmp_settings.h"

namespace phalanx {

struct RankAffinity {
  std::vector<std::vector<int>> cores;  // by local rank; empty where none is bound
  std::string text;                     // for people: "ranks on cores 0-31, 32-63"; or why none is
  // With OpenMP's places: those of a rank's threads, by local rank.
  std::vector<std::vector<std::vector<int>>> places = {};

  // Binds the calling thread, and with it the threads that it starts later, the rank's team.
  void bind(int local_rank) const;
  // The cores of all ranks of the machine; empty where none is bound.
  std::vector<int> all() const;
};

// Several ranks of a machine that use all cores of the calling thread are bound to their shares,
// unless --no-cpu-affinity says otherwise. OpenMP's places, if they are set, are dealt to the
// threads of the ranks in order.
RankAffinity rank_affinity(const LayoutConfig& layout);

// The decision alone. `usable` are the cores that may be used, neighbours next to each other;
// `limit` of them can be busy at once.
RankAffinity rank_affinity(const LayoutConfig& layout, std::span<const int> usable, int limit,
                           const OpenMpPlaces& openmp);

}  // namespace phalanx
