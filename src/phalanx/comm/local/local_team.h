#pragma once
// A world of local ranks that live on between calls: each waits on a thread of its own for work.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "phalanx/comm/local/local_world.h"

namespace phalanx {

class LocalTeam {
 public:
  // SystemError if the system refuses a thread of a rank or of those that options.threads_per_rank
  // asks for.
  explicit LocalTeam(int size, const LocalOptions& options = {});
  LocalTeam(const LocalTeam&) = delete;
  LocalTeam& operator=(const LocalTeam&) = delete;
  ~LocalTeam();

  int size() const { return static_cast<int>(world_.size()); }
  // Runs `work` for every rank, the first on the calling thread, and returns when all have
  // returned. If one throws, the waits of the others end and this rethrows the first failure; the
  // team cannot be used after that.
  using Body = std::function<void(Communicator& world)>;
  void run(const Body& work);

 private:
  void serve(std::size_t rank);
  void perform(std::size_t rank, const Body& work);

  std::vector<std::unique_ptr<Communicator>> world_;
  std::vector<std::exception_ptr> failures_;
  std::mutex mutex_;
  std::condition_variable started_, finished_;
  const Body* work_ = nullptr;   // null: the ranks leave
  std::int64_t generation_ = 0;  // number of the work
  int busy_ = 0;                 // ranks that have not returned from the work
  std::vector<std::jthread> threads_;
};

}  // namespace phalanx
