#pragma once
// The ranks of a local world that sleep, by the operation that they wait for. Waking one costs the
// same for two ranks as for thousands.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "phalanx/comm/local/operation.h"

namespace phalanx::local {

struct Sleeper {
  int rank = 0;  // of the world
  const Operation* waits_for = nullptr;
  bool woken = false;
  std::condition_variable wake{};
  std::size_t index = 0;  // of Sleepers
};

// To be used with the lock that the sleepers' condition variables go with. A sleeper that is woken
// is no longer in it.
class Sleepers {
 public:
  void add(Sleeper& sleeper);
  // If it has not been woken.
  void remove(Sleeper& sleeper);

  void wake_all_for(const Operation& operation);
  // At most `count`: those that wait for the operation first, then others.
  void wake_some(const Operation& operation, std::int64_t count);
  void wake_all();

  // f(operation, its sleepers), for each operation that ranks wait for.
  template <typename F>
  void for_each_operation(const F& f) const {
    for (const auto& [operation, sleepers] : by_operation_) {
      f(*operation, std::span<Sleeper* const>(sleepers));
    }
  }

 private:
  void wake_last_for(const Operation& operation);

  std::unordered_map<const Operation*, std::vector<Sleeper*>> by_operation_;
};

}  // namespace phalanx::local
