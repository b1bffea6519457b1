#pragma once
// A rank's (or a launcher's) end of the rendezvous: it joins the others, exchanges small texts with
// them, and stays connected for as long as the run: heartbeats one way, failures of others the
// other way, by a thread of its own.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/rendezvous/launch_environment.h"
#include "phalanx/rendezvous/rank_place.h"
#include "phalanx/rendezvous/rank_watch.h"
#include "phalanx/rendezvous/secret.h"

namespace phalanx {

enum class MemberRole : std::uint8_t { kRank, kLauncher };

struct MemberOptions {
  MemberRole role = MemberRole::kRank;
  LaunchEnvironment environment;  // of a launcher: `rank` is its node, `world_size` the nodes
  Secret secret;
  bool with_munge = false;  // without a secret: the coordinator's, by MUNGE
  // Until all have joined: UnavailableError (69) that names who is missing.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(10);
  // Asked a few times a second while waiting; what it throws ends the joining.
  std::function<void()> poll = nullptr;

  // What the rank's flags say of silence, its own and the coordinator's, and of being without a
  // tick, in seconds; empty: what is usual. Zero without a tick: for ever.
  std::optional<double> silence_limit{};
  std::optional<double> still_limit{};
  // Called once, on the member's own thread, where a failure has been there for `grace` and the
  // rank has neither left nor gone: it is stuck, in computing or in the system.
  std::function<void(const RankFailure& failure)> on_stuck = nullptr;
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  // Called on the member's own thread where a rank hangs, this one or another: the time to write
  // down what all threads do.
  std::function<void()> on_hang = nullptr;
  // For launchers, on the member's own thread: the first failure of the ranks of an attempt, which
  // is none of the launchers' group.
  std::function<void(const RankFailure& failure)> on_rank_failure = nullptr;
};

class Member : public RankWatch {
 public:
  // Joins, and returns when all have: 69 where the coordinator cannot be reached or ranks are
  // missing, 77 where the secret is not the coordinator's, 78 where the places contradict each
  // other (a rank twice, another world size).
  static std::unique_ptr<Member> join(const MemberOptions& options);

  // Of all ranks, by rank (of launchers, by node).
  virtual const std::vector<RankPlace>& places() const = 0;
  // The network interface over which the coordinator is reached; empty for a Unix socket or the
  // loopback's where all are on one host.
  virtual const std::string& network_device() const = 0;

  // The texts of all ranks, by rank; every rank at the same time. The failure's error where a rank
  // fails meanwhile. Caps: 16 KiB a text.
  virtual std::vector<std::string> gather(std::string mine) = 0;
  // Rank 0's text, for all. Up to 1 MiB.
  virtual std::string broadcast(std::string of_rank_0) = 0;

  // The rank is done: from now on its going is nobody's failure, nor are others' its own.
  virtual void leave() noexcept = 0;
};

}  // namespace phalanx
