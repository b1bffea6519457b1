#pragma once
// This process's place among the ranks, from environment variables: torchrun's, Slurm's, and those
// of `phalanx launch`, which are torchrun's and two more.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "phalanx/rendezvous/rank_place.h"

namespace phalanx {

// Where the coordinator of the ranks listens.
struct Endpoint {
  enum class Kind : std::uint8_t { kUnix, kTcp };
  Kind kind = Kind::kUnix;
  std::string name;  // kUnix: in the abstract namespace, without its leading zero byte
  std::string host;  // kTcp: an address or a name
  int port = 0;

  // "unix:NAME", "tcp:HOST:PORT", "tcp:[::1]:PORT".
  std::string to_text() const;
  // UsageError.
  static Endpoint parse(const std::string& text);
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

struct LaunchEnvironment {
  std::string source;  // for people: "torchrun", "Slurm", "phalanx launch", "RANK and WORLD_SIZE"
  int rank = 0;
  int world_size = 1;
  int node = 0;        // GROUP_RANK, SLURM_NODEID
  int local_rank = 0;  // on this node
  int local_size = 1;  // ranks of this node, as the launcher says
  std::string run_id;  // "none" if none is set
  int attempt = 0;     // how often the job was started again: the epoch
  Endpoint endpoint;
  bool hosts_coordinator = false;  // rank 0 of a run whose launcher is not ours
  std::string note;                // for rank 0 to log ("... listens on port 29501"); may be empty
};

// The variable's value; null if it is not set.
using GetVariable = std::function<const char*(const char* name)>;

// Empty if no launcher started this process. A process that a launcher started alone is a rank,
// too. UsageError (64) if a variable has a wrong value, or two of them contradict each other.
std::optional<LaunchEnvironment> read_launch_environment(const GetVariable& variable);
// From this process's variables.
std::optional<LaunchEnvironment> read_launch_environment();

// This process's number among those that a launcher started, for messages alone: nothing where none
// did, or where the variable is no number, which read_launch_environment() refuses.
std::optional<int> launched_rank(const GetVariable& variable);
std::optional<int> launched_rank();

}  // namespace phalanx
