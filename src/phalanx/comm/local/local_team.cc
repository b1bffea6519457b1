#include "phalanx/comm/local/local_team.h"

#include "phalanx/base/error.h"
#include "phalanx/comm/local/hub.h"

namespace phalanx {

LocalTeam::LocalTeam(int size, const LocalOptions& options)
    : world_(make_local_world(size, options)), failures_(world_.size()) {
  expect_threads(size * options.threads_per_rank - 1, options.start_thread);
  for (std::size_t rank = 1; rank < world_.size(); ++rank) {
    try {
      threads_.push_back(options.start_thread([this, rank] { serve(rank); }));
    } catch (const std::system_error& error) {
      const std::lock_guard lock(mutex_);
      ++generation_;
      started_.notify_all();
      throw_threads_refused(static_cast<int>(rank), size, error);
    }
  }
}

LocalTeam::~LocalTeam() {
  const std::lock_guard lock(mutex_);
  work_ = nullptr;
  ++generation_;
  started_.notify_all();
}

void LocalTeam::perform(std::size_t rank, const Body& work) {
  try {
    work(*world_[rank]);
  } catch (const std::exception& error) {
    failures_[rank] = std::current_exception();
    world_[rank]->abort(error.what());
  } catch (...) {
    failures_[rank] = std::current_exception();
    world_[rank]->abort("an unknown exception");
  }
}

void LocalTeam::serve(std::size_t rank) {
  for (std::int64_t done = 0;; ++done) {
    const Body* work = nullptr;
    {
      std::unique_lock lock(mutex_);
      started_.wait(lock, [&] { return generation_ > done; });
      work = work_;
    }
    if (work == nullptr) return;
    perform(rank, *work);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) finished_.notify_all();
  }
}

void LocalTeam::run(const Body& work) {
  if (world_.size() == 1) return work(*world_[0]);
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    busy_ = size() - 1;
    ++generation_;
    started_.notify_all();
  }
  perform(0, work);
  {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return busy_ == 0; });
  }
  // The other ranks' errors only follow from the first failure.
  if (const auto failed = local::hub_of(*world_[0]).failed_rank()) {
    std::rethrow_exception(failures_[static_cast<std::size_t>(*failed)]);
  }
}

}  // namespace phalanx
