#pragma once
// The collectives that add nothing, made of messages; sums.h has those that add.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "phalanx/comm/ucx/operation.h"
#include "phalanx/comm/ucx/task.h"

namespace phalanx::ucx {

// `operation` outlives its task. Tensors are as in communicator.h, with the operation's dtype and
// count.
Task all_gather(Operation& operation, std::byte* output, const std::byte* input);
Task broadcast(Operation& operation, std::byte* tensor);
// A part of others: small data from member `root` down a binomial tree.
Task spread(Operation& operation, std::byte* tensor, std::int64_t bytes, int root);
// Elements to and from each member.
Task all_to_all(Operation& operation, std::byte* output, std::vector<std::int64_t> from,
                const std::byte* input, std::vector<std::int64_t> to);
Task barrier(Operation& operation);
Task split(Operation& operation, std::uint32_t next_group);
Task send(Operation& operation, const std::byte* data);
Task receive(Operation& operation, std::byte* data);

}  // namespace phalanx::ucx
