#include <numeric>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/rendezvous/local_mailbox.h"
#include "phalanx/start/rank_runner.h"

namespace phalanx {
namespace {

std::vector<RankPlace> places_here(int world_size) {
  std::vector<RankPlace> places(static_cast<std::size_t>(world_size));
  for (int rank = 0; rank < world_size; ++rank) {
    places[static_cast<std::size_t>(rank)] = {.rank = rank,
                                              .world_size = world_size,
                                              .local_rank = rank,
                                              .local_size = world_size,
                                              .host_name = {}};
  }
  return places;
}

class ThreadRunner final : public RankRunner {
 public:
  explicit ThreadRunner(int world_size) : RankRunner(places_here(world_size)) {}

  std::vector<int> own_ranks() const override {
    std::vector<int> ranks(places().size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  std::string broadcast(std::string of_first) override { return of_first; }
  std::vector<std::string> gather(std::string mine) override { return {std::move(mine)}; }
  void prepare(const std::function<void()>& preparation) override { preparation(); }

  void run(const RankOptions& options, const Body& body) override {
    LocalMailbox mailbox;
    run_local_ranks(static_cast<int>(places().size()),
                    {.threads_per_rank = options.threads_per_rank,
                     .sum_block = options.sum_block,
                     .timeout = options.timeout},
                    [&](Communicator& world) {
                      const auto watch = make_idle_watch(&mailbox);
                      body(world, *watch);
                    });
  }
  MessageMemory message_memory(int /*sum_block*/, std::span<const int> /*summing*/) const override {
    return {};
  }
};

}  // namespace

std::unique_ptr<RankRunner> make_thread_runner(int world_size) {
  return std::make_unique<ThreadRunner>(world_size);
}

}  // namespace phalanx
