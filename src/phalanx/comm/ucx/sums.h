#pragma once
// All-reduce and reduce-scatter. Who adds, and what goes where, depends on sizes and hosts; the
// order of additions is that of the SumTree.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "phalanx/comm/ucx/scratch.h"
#include "phalanx/comm/ucx/sum_steps.h"
#include "phalanx/comm/ucx/task.h"

namespace phalanx::ucx {

class Operation;

// What the sums of one communicator have in common.
struct Sums {
  explicit Sums(SumSteps of_group) : steps(std::move(of_group)) {}
  const SumSteps steps;
  Scratch scratch{};
};

// The most that the sums of one communicator of `members` ranks take, in blocks of `block`;
// `has_adders` as in SumSteps.
std::int64_t bytes_of_sums(int members, int block, bool has_adders);

// `operation` outlives its task. Tensors are as in communicator.h, with the operation's dtype and
// count.
Task all_reduce(Operation& operation, std::shared_ptr<Sums> sums, std::byte* tensor);
Task reduce_scatter(Operation& operation, std::shared_ptr<Sums> sums, std::byte* output,
                    const std::byte* input);

}  // namespace phalanx::ucx
