#pragma once
// What the environment says of this process's place among the ranks: torchrun's variables, Slurm's,
// and those of `phalanx launch`, which are torchrun's and two more.

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
  std::string run_id;  // "none" where nobody says
  int attempt = 0;     // how often the job was started again: the epoch
  Endpoint endpoint;
  bool hosts_coordinator = false;  // rank 0 of a run whose launcher is not ours
  std::string note;                // to be logged by rank 0; empty: nothing ("MASTER_PORT + 1 ...")
};

// The variable's value; null where it is not set.
using GetVariable = std::function<const char*(const char* name)>;

// Empty where no launcher started this process. A launcher's only process is a rank like any.
// UsageError (64) where a variable is not what it should be, or two of them contradict each other.
std::optional<LaunchEnvironment> read_launch_environment(const GetVariable& variable);
// Of this process.
std::optional<LaunchEnvironment> read_launch_environment();

}  // namespace phalanx
