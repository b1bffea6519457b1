#pragma once
// The one place where ranks come to be: threads of this process, or this process as one rank of
// many. Nothing else in train/ knows which. Before the ranks run, their processes agree on what
// they are about to do; what the first rank decides holds for all.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/comm/communicator.h"
#include "phalanx/rendezvous/rank_place.h"
#include "phalanx/rendezvous/rank_watch.h"
#include "phalanx/start/agreement.h"

namespace phalanx {

struct RankOptions {
  int threads_per_rank = 1;
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

class RankRunner {
 public:
  virtual ~RankRunner() = default;
  RankRunner(const RankRunner&) = delete;
  RankRunner& operator=(const RankRunner&) = delete;

  // Of all ranks, by rank.
  const std::vector<RankPlace>& places() const { return places_; }
  // Those that come to be in this process.
  virtual std::vector<int> own_ranks() const = 0;
  // The process with the first rank decides, writes and speaks.
  bool leads() const { return own_ranks().front() == 0; }
  int hosts() const { return places_.back().host + 1; }

  // By all processes, one after the other in the same order: ---------------------------------
  // The leading process's text, for all.
  virtual std::string broadcast(std::string of_first) = 0;
  // The texts of all processes, in the order of their ranks.
  virtual std::vector<std::string> gather(std::string mine) = 0;
  // What they do before their ranks run, with the two calls above; ends alike in all (Agreement).
  virtual void prepare(const std::function<void()>& preparation) = 0;

  // Runs `body` for every rank of this process, and returns when all have returned. Where it
  // throws, the others' waits end, in whatever process they are; the first failure comes out here.
  using Body = std::function<void(Communicator& world, RankWatch& watch)>;
  virtual void run(const RankOptions& options, const Body& body) = 0;
  // Bytes that the messages of one of this process's ranks may take beside the planned arenas.
  virtual std::int64_t message_bytes() const = 0;

 protected:
  explicit RankRunner(std::vector<RankPlace> places) : places_(std::move(places)) {}

 private:
  std::vector<RankPlace> places_;
};

// All ranks as threads of this process.
std::unique_ptr<RankRunner> make_thread_runner(int world_size);

}  // namespace phalanx
