#include "phalanx/comm/ucx/collectives.h"

#include <algorithm>

#include "phalanx/comm/ucx/engine.h"
#include "phalanx/comm/ucx/gathers.h"
#include "phalanx/comm/ucx/patterns.h"

namespace phalanx::ucx {
namespace {

// Trees up to here, rings in pieces of the size from here on.
constexpr std::int64_t kTreeBytes = 64 << 10;
constexpr std::int64_t kRingPiece = 256 << 10;

// Piece by piece from the root to the rank before it.
Task pass_on(Operation& operation, std::byte* tensor, std::int64_t bytes, int root) {
  const bool last = after(operation, 1) == root, first = operation.rank() == root;
  Batch sends(operation), even(operation), odd(operation);
  const auto batch_of = [&](std::int64_t index) -> Batch& { return index % 2 == 0 ? even : odd; };
  const auto size_at = [&](std::int64_t index) {
    return unsigned_of(std::min(kRingPiece, bytes - index * kRingPiece));
  };
  const auto begin = [&](std::int64_t index) {
    if (first || index * kRingPiece >= bytes) return;
    batch_of(index).receive(before(operation, 1), Lane::kGather, tensor + index * kRingPiece,
                            size_at(index));
  };
  begin(0);
  for (std::int64_t index = 0; index * kRingPiece < bytes; ++index) {
    begin(index + 1);
    Batch& batch = batch_of(index);
    co_await batch;
    if (!last) {
      sends.send(after(operation, 1), Lane::kGather, tensor + index * kRingPiece, size_at(index));
    }
  }
  co_await sends;
}

}  // namespace

Task spread(Operation& operation, std::byte* tensor, std::int64_t bytes, int root) {
  const int size = operation.size();
  const int place = (operation.rank() - root + size) % size;  // from the root
  int step = 1;
  while (step < size && (place & step) == 0) step <<= 1;
  if (place != 0) {
    Batch batch(operation);
    batch.receive(before(operation, step), Lane::kGather, tensor, unsigned_of(bytes));
    co_await batch;
  }
  Batch batch(operation);
  for (step >>= 1; step > 0; step >>= 1) {
    if (place + step >= size) continue;
    batch.send(after(operation, step), Lane::kGather, tensor, unsigned_of(bytes));
  }
  co_await batch;
}

Task all_gather(Operation& operation, std::byte* output, const std::byte* input) {
  const std::int64_t bytes = bytes_of(operation.call());
  copy(output + operation.rank() * bytes, input, bytes);
  Batch batch(operation);
  if (is_small(bytes) && operation.size() <= kFewRanks) {
    const auto came = to_everyone(batch, operation, bytes, [&](int) { return input; });
    co_await batch.kept();
    for (int member = 0, other = 0; member < operation.size(); ++member) {
      if (member == operation.rank()) continue;
      copy(output + member * bytes, came[static_cast<std::size_t>(other++)], bytes);
    }
    co_return;
  }
  compare_around(batch, operation);
  const Slices parts(bytes * operation.size(), operation.size(), std::max<std::int64_t>(bytes, 1));
  Task gathering = gather_slices(operation, output, parts);
  co_await gathering;
  co_await batch;
}

Task broadcast(Operation& operation, std::byte* tensor) {
  const std::int64_t bytes = bytes_of(operation.call());
  const int root = operation.call().root;
  Batch batch(operation);
  compare_around(batch, operation);
  Task spreading = bytes <= kTreeBytes ? spread(operation, tensor, bytes, root)
                                       : pass_on(operation, tensor, bytes, root);
  co_await spreading;
  co_await batch;
}

Task all_to_all(Operation& operation, std::byte* output, std::vector<std::int64_t> from,
                const std::byte* input, std::vector<std::int64_t> to) {
  const std::int64_t element = size_of(operation.call().dtype);
  const auto begin_of = [&](const std::vector<std::int64_t>& counts, int member) {
    std::int64_t begin = 0;
    for (int other = 0; other < member; ++other) begin += counts[static_cast<std::size_t>(other)];
    return begin * element;
  };
  const auto count = [](const std::vector<std::int64_t>& counts, int member) {
    return counts[static_cast<std::size_t>(member)];
  };
  const int rank = operation.rank();
  Header to_self = header_of(operation.call());
  to_self.key = static_cast<std::uint64_t>(count(to, rank));
  expect_given(operation.place(), rank, to_self, count(from, rank));
  Batch batch(operation);
  std::vector<const std::byte*> came(from.size());
  for (int step = 1; step < operation.size(); ++step) {
    const int giver = before(operation, step), taker = after(operation, step);
    came[static_cast<std::size_t>(giver)] =
        batch
            .receive_headed(giver, Lane::kHeader, output + begin_of(from, giver),
                            unsigned_of(count(from, giver) * element), count(from, giver))
            .data();
    batch.send_headed(taker, Lane::kHeader, input + begin_of(to, taker),
                      unsigned_of(count(to, taker) * element), count(to, taker));
  }
  copy(output + begin_of(from, rank), input + begin_of(to, rank), count(to, rank) * element);
  co_await batch.kept();
  for (int giver = 0; giver < operation.size(); ++giver) {
    const std::int64_t bytes = count(from, giver) * element;
    if (giver == rank || !is_small(bytes)) continue;
    copy(output + begin_of(from, giver), came[static_cast<std::size_t>(giver)], bytes);
  }
}

// In the k-th round ranks that are 2^k apart exchange messages.
Task barrier(Operation& operation) {
  {
    Batch batch(operation);
    compare_around(batch, operation);
    co_await batch;
  }
  for (int step = 2; step < operation.size(); step *= 2) {
    Batch batch(operation);
    batch.send(after(operation, step), Lane::kData, nullptr, 0);
    batch.receive(before(operation, step), Lane::kData, nullptr, 0);
    co_await batch;
  }
}

// As a barrier. After the k-th round a rank knows the greatest id of the 2^k ranks before it.
Task split(Operation& operation, std::uint32_t next_group) {
  for (int step = 1; step < operation.size(); step *= 2) {
    Batch batch(operation);
    batch.send_split(after(operation, step), next_group);
    const StagingBuffer& stage = batch.receive_split(before(operation, step));
    // Awaiting the batch frees the buffers.
    co_await batch.kept();
    next_group = std::max(next_group, stage.header().next_group);
  }
  operation.next_group = next_group;
}

Task send(Operation& operation, const std::byte* data) {
  Batch batch(operation);
  batch.send_headed(operation.place().receiver, Lane::kMessage, data,
                    unsigned_of(bytes_of(operation.call())));
  co_await batch;
}

Task receive(Operation& operation, std::byte* data) {
  const std::int64_t bytes = bytes_of(operation.call());
  Batch batch(operation);
  const StagingBuffer& stage =
      batch.receive_headed(operation.place().sender, Lane::kMessage, data, unsigned_of(bytes));
  co_await batch.kept();
  if (is_small(bytes)) copy(data, stage.data(), bytes);
}

}  // namespace phalanx::ucx
