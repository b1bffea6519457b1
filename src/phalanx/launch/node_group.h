#pragma once
// The launchers of a run, one for each node, and the coordinator of its ranks, which the launcher
// of node 0 hosts.

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/launch/node_board.h"
#include "phalanx/launch/rank_end.h"
#include "phalanx/launch/wake_event.h"

namespace phalanx::launch {

// The coordinator as the launcher uses it (an interface, for tests).
class RankServer {
 public:
  virtual ~RankServer() = default;
  RankServer(const RankServer&) = delete;
  RankServer& operator=(const RankServer&) = delete;
  // Ranks of earlier attempts are refused from now on.
  virtual void begin_attempt(int attempt, int world_size) = 0;
  // The launcher reports how it ended: "was killed by SIGKILL".
  virtual void rank_ended(int rank, const std::string& how) = 0;

 protected:
  RankServer() = default;
};

// Passes the server's verdict (which rank failed first) from its thread to the launcher's.
class VerdictBox {
 public:
  struct Entry {
    RankVerdict verdict;
    std::vector<std::string> report;  // a line for every rank with its position
    std::chrono::steady_clock::time_point time;
  };

  void put(RankVerdict verdict, std::vector<std::string> report);
  std::optional<Entry> take();
  const WakeEvent& changed() const { return changed_; }

 private:
  std::mutex mutex_;
  std::optional<Entry> entry_;
  WakeEvent changed_;
};

struct NodeGroupParts {
  int nodes = 1;
  int node = 0;
  std::shared_ptr<VerdictBox> verdicts;  // node 0's server fills it
  std::unique_ptr<RankServer> server;    // node 0
  std::string endpoint;                  // where ranks find the server: PHALANX_COORDINATOR
  GatherTexts gather;                    // several nodes
  // Tells all launchers that this one no longer waits for them.
  std::function<void(const std::string& reason)> give_up = nullptr;
  std::chrono::milliseconds pace{100};  // between rounds of it
};

class NodeGroup {
 public:
  explicit NodeGroup(NodeGroupParts parts);

  int nodes() const { return parts_.nodes; }
  int node() const { return parts_.node; }
  const std::string& endpoint() const { return parts_.endpoint; }

  // As in NodeBoard.
  void post(int stage, std::string text);
  std::optional<std::vector<std::string>> texts(int stage) const;
  std::vector<std::string> latest(int stage) const;
  std::string lost() const;
  // Tells all launchers that this one no longer waits for them.
  void give_up(const std::string& reason) const;

  // These do something on node 0 only.
  void begin_attempt(int attempt, int world_size);
  void rank_ended(int rank, const std::string& how) const;
  std::optional<VerdictBox::Entry> take_verdict();

  // Readable when something has changed; -1 with one node.
  int board_descriptor() const;
  int verdict_descriptor() const { return parts_.verdicts->changed().descriptor(); }
  void clear_events() const;

 private:
  NodeGroupParts parts_;
  std::optional<NodeBoard> board_;
  int stage_ = -1;  // of one node
  std::string text_;
};

}  // namespace phalanx::launch
