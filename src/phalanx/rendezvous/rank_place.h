#pragma once
// Where a rank runs, as it is known before the layout of the model. A host is a node of the
// launcher (GROUP_RANK, SLURM_NODEID) and one network namespace: ranks of two namespaces of one
// machine are on two hosts. Shared memory is used within a host alone.

#include <string>

namespace phalanx {

struct RankPlace {
  int rank = 0;
  int world_size = 1;
  int host = 0;           // 0 ... hosts - 1, in the order of their first ranks
  int local_rank = 0;     // among the ranks of the host
  int local_size = 1;     // ranks of the host
  std::string host_name;  // for people
};

}  // namespace phalanx
