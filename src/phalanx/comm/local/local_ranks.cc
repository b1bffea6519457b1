#include "phalanx/comm/local/local_ranks.h"

#include <exception>
#include <thread>

#include "phalanx/comm/local/hub.h"

namespace phalanx {

void run_local_ranks(int size, const LocalOptions& options,
                     const std::function<void(Communicator& world)>& body) {
  const auto world = make_local_world(size, options);
  // With one rank the calling thread is it; with several it waits for them.
  expect_threads(size * options.threads_per_rank - (size == 1 ? 1 : 0), options.start_thread);
  if (size == 1) return body(*world[0]);
  std::vector<std::exception_ptr> failures(world.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < world.size(); ++rank) {
      Communicator& end = *world[rank];
      const auto run = [&body, &end, &failure = failures[rank]] {
        try {
          body(end);
        } catch (const std::exception& error) {
          failure = std::current_exception();
          end.abort(error.what());
        } catch (...) {
          failure = std::current_exception();
          end.abort("an unknown exception");
        }
      };
      try {
        threads.push_back(options.start_thread(run));
      } catch (const std::system_error& error) {
        // The others wait for this rank.
        end.abort("its thread could not be started");
        threads.clear();
        throw_threads_refused(static_cast<int>(rank), size, error);
      }
    }
  }
  // The other ranks' errors only follow from the first failure.
  if (const auto failed = local::hub_of(*world[0]).failed_rank()) {
    std::rethrow_exception(failures[static_cast<std::size_t>(*failed)]);
  }
}

}  // namespace phalanx
