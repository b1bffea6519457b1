#pragma once
// Starts the ranks of a run: as threads of this process, or this process as one rank of many. Only
// the runner knows which. Before the ranks run, their processes agree on what they are about to do;
// what the first rank decides holds for all.

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/comm/communicator.h"
#include "phalanx/comm/sum_tree.h"
#include "phalanx/rendezvous/rank_place.h"
#include "phalanx/rendezvous/rank_watch.h"
#include "phalanx/start/agreement.h"

namespace phalanx {

struct RankOptions {
  int threads_per_rank = 1;
  int sum_block = kSumBlock;
  std::vector<int> summing{};  // as in RankRunner::message_memory(), of this process's ranks
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

class RankRunner {
 public:
  virtual ~RankRunner() = default;
  RankRunner(const RankRunner&) = delete;
  RankRunner& operator=(const RankRunner&) = delete;

  // The places of all ranks, by rank.
  const std::vector<RankPlace>& places() const { return places_; }
  // The ranks of this process.
  virtual std::vector<int> own_ranks() const = 0;
  // The process with the first rank decides, writes and speaks.
  bool leads() const { return own_ranks().front() == 0; }
  int hosts() const { return places_.back().host + 1; }

  // All processes make these calls, in the same order: -----------------------------------------
  // The leading process's text, for all.
  virtual std::string broadcast(std::string of_first) = 0;
  // The texts of all processes, in the order of their ranks.
  virtual std::vector<std::string> gather(std::string mine) = 0;
  // What a process does before its ranks run, with the two calls above. It ends with the same error
  // in all processes (Agreement).
  virtual void prepare(const std::function<void()>& preparation) = 0;

  // Runs `body` for every rank of this process, and returns when all have returned. If one throws,
  // the waits of the other ranks end in all processes, and the first failure is thrown here. May be
  // called again when all ranks of all processes have returned.
  using Body = std::function<void(Communicator& world, RankWatch& watch)>;
  virtual void run(const RankOptions& options, const Body& body) = 0;
  // What the messages of one of this process's ranks may take beside the planned arenas.
  // `summing`: the sizes of the groups in which it sums more than a few numbers.
  struct MessageMemory {
    std::int64_t bytes = 0;
    std::int64_t shared = 0;  // the part that is other ranks' memory, which those count too
  };
  virtual MessageMemory message_memory(int sum_block, std::span<const int> summing) const = 0;

 protected:
  explicit RankRunner(std::vector<RankPlace> places) : places_(std::move(places)) {}

 private:
  std::vector<RankPlace> places_;
};

// All ranks as threads of this process.
std::unique_ptr<RankRunner> make_thread_runner(int world_size);

}  // namespace phalanx
