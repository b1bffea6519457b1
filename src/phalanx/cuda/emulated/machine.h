#pragma once
// A machine that runs kernels as a GPU may, and in ways that a GPU hardly ever does. A fiber for
// every thread of a block; blocks one after the other. Threads stop at barriers and warp operations
// alone. At a block's begin and at every barrier the machine draws an order of warps, and whether
// the first warp runs ahead as far as it can (3 of 4 times) or any warp goes on. Shared memory
// begins as NaN; what a kernel does wrong is an InternalError that names the line.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/cuda/driver.h"

namespace phalanx::cuda {

// A call that orders something: a line in the log of a run, or one to switch off.
struct BarrierPlace {
  std::string file;  // its last part: "norm-inl.h"
  int line = 0;
  std::string kind;  // "sync", "sync_warp" or "cp_wait"

  bool operator==(const BarrierPlace&) const = default;
};

class Machine {
 public:
  Machine();
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Seed 0 is the fixed order of numbers; every other draws.
  void set_seed(std::uint64_t seed);
  // Blocks run from the last to the first.
  void set_backwards(bool backwards);
  // The barrier at this place does nothing until nothing is dropped any more.
  void drop(const BarrierPlace& place);
  void drop_nothing();
  // Every barrier that runs have met since the last call.
  std::vector<BarrierPlace> take_places();
  // Warp-wide ldmatrix phases that had to be repeated since rows lay in the same banks, and the
  // switches between threads, since the last call.
  std::int64_t take_conflicts();
  std::int64_t take_switches();

  // Runs all blocks; one run at a time in a process. InternalError: "KERNEL, block (0, 0, 0): what
  // is wrong". For ThreadSanitizer nothing orders the blocks of a run, nor runs of two owners.
  void run(const Kernel& kernel, Grid grid, BlockShape shape, const void* params, int owner = 0);

  class Body;
  Body& body() { return *body_; }

 private:
  std::unique_ptr<Body> body_;
};

// The machine that the emulated driver runs kernels on.
Machine& emulated_machine();

}  // namespace phalanx::cuda
