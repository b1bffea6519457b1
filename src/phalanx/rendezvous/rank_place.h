#pragma once
// Where a rank runs; known before the model's layout is. A host is one network namespace of
// one node of the launcher (GROUP_RANK, SLURM_NODEID): ranks in two namespaces of one machine are
// on two hosts. Shared memory is used only within a host.

#include <string>

namespace phalanx {

struct RankPlace {
  int rank = 0;
  int world_size = 1;
  int host = 0;           // 0 ... hosts - 1, ordered by their first ranks
  int local_rank = 0;     // among the ranks of the host
  int local_size = 1;     // ranks of the host
  std::string host_name;  // for people
};

}  // namespace phalanx
