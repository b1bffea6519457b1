#pragma once
// A rank's (or a launcher's) end of the rendezvous. It joins the others, exchanges small texts with
// them, and stays connected for as long as the run: a thread of its own sends heartbeats and
// receives the failures of others. It is the run's mailbox, too.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/rendezvous/launch_environment.h"
#include "phalanx/rendezvous/mailbox.h"
#include "phalanx/rendezvous/rank_place.h"
#include "phalanx/rendezvous/rank_watch.h"
#include "phalanx/rendezvous/secret.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx {

enum class MemberRole : std::uint8_t { kRank, kLauncher };

struct MemberOptions {
  MemberRole role = MemberRole::kRank;
  // For a launcher `rank` is its node, and `world_size` the number of nodes.
  LaunchEnvironment environment;
  Secret secret;
  bool with_munge = false;  // get the coordinator's secret by MUNGE if `secret` is empty
  // How long to wait until all have joined.
  std::chrono::milliseconds join_timeout = rendezvous::kJoinTimeout;
  // Called a few times a second while waiting; an exception ends the joining.
  std::function<void()> poll = nullptr;

  // Limits that the rank's flags set, in seconds: of silence, its own and the coordinator's, and of
  // time without a tick (zero: none). Empty: those of timing.h.
  std::optional<double> silence_limit{};
  std::optional<double> still_limit{};
  // Called once, on the member's own thread, if the rank has not left `grace` after a failure: it
  // is stuck, in computing or in the system.
  std::function<void(const RankFailure& failure)> on_stuck = nullptr;
  std::chrono::milliseconds grace = rendezvous::kStuckGrace;
  // Called on the member's own thread when this rank or another one hangs, so that it can write the
  // stacks of all threads.
  std::function<void()> on_hang = nullptr;
  // For launchers: called on the member's own thread with the first failure of an attempt's ranks.
  std::function<void(const RankFailure& failure)> on_rank_failure = nullptr;
};

class Member : public RankWatch, public Mailbox {
 public:
  // Joins, and returns when all have joined. Errors: 69 if the coordinator cannot be reached, or
  // names the ranks that are missing; 77 if the coordinator has another secret; 78 if the members'
  // places contradict each other (a rank twice, another world size).
  static std::unique_ptr<Member> join(const MemberOptions& options);

  // Where all ranks run, by rank (launchers: by node).
  virtual const std::vector<RankPlace>& places() const = 0;
  // The network interface to the coordinator; empty for a Unix socket, and for the loopback if all
  // ranks are on one host.
  virtual const std::string& network_device() const = 0;

  // The texts of all ranks, by rank; every rank must call it. At most 16 KiB a text. If a rank
  // fails meanwhile, that failure's error.
  virtual std::vector<std::string> gather(std::string mine) = 0;
  // Rank 0's text, of at most 1 MiB; every rank must call it. Errors as gather().
  virtual std::string broadcast(std::string of_rank_0) = 0;

  Mailbox* mailbox() noexcept override { return this; }

  // The rank is done: from now on its end is no failure, and it ignores failures of others.
  virtual void leave() noexcept = 0;
};

}  // namespace phalanx
