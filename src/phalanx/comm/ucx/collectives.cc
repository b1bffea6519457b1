#include "phalanx/comm/ucx/collectives.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "phalanx/comm/reduce.h"
#include "phalanx/comm/ucx/engine.h"

namespace phalanx::ucx {
namespace {

// In groups up to this size every rank sends small data to every other one.
constexpr int kFewRanks = 16;
// Trees up to here, rings in pieces of the size from here on.
constexpr std::int64_t kTreeBytes = 64 << 10;
constexpr std::int64_t kRingPiece = 256 << 10;
// The largest piece that a sum takes from one source at a time: it fits in a cache.
constexpr std::int64_t kMostChunk = 512 << 10;

std::int64_t bytes_of(const Call& call) { return call.count * size_of(call.dtype); }

bool is_small(std::int64_t bytes) { return bytes <= static_cast<std::int64_t>(kSmallBytes); }

int after(const Operation& operation, int steps) {
  return (operation.rank() + steps) % operation.size();
}
int before(const Operation& operation, int steps) {
  return (operation.rank() + operation.size() - steps) % operation.size();
}

void copy(void* to, const void* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

std::size_t unsigned_of(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

// Every rank sends its call's header to the next one, so that some rank notices if the calls of a
// group differ. Collectives in which every rank sends to every other one need no more.
void compare_around(Batch& batch, const Operation& operation) {
  batch.send_headed(after(operation, 1), Lane::kHeader, nullptr, 0);
  batch.receive_headed(before(operation, 1), Lane::kHeader, nullptr, 0);
}

// The bytes of a tensor that a member adds and owns in between: slices of whole elements.
struct Slices {
  std::int64_t slice = 0;
  std::int64_t total = 0;

  Slices(std::int64_t bytes, int members, std::int64_t granule)
      : slice(((bytes + granule - 1) / granule + members - 1) / members * granule), total(bytes) {}
  std::int64_t begin(int member) const { return std::min(member * slice, total); }
  std::int64_t bytes(int member) const { return begin(member + 1) - begin(member); }
};

// A sum in chunks: the data of each rank for member r begins at input + begin(r); output is this
// rank's.
struct Sum {
  std::byte* output;
  const std::byte* input;
  Slices parts;
};

std::int64_t chunk_of(const Operation& operation, std::int64_t scratch) {
  const std::int64_t share = scratch / (2 * (operation.size() - 1));
  return std::clamp(share / Engine::kLeastChunk * Engine::kLeastChunk, Engine::kLeastChunk,
                    kMostChunk);
}

void send_chunks(Batch& batch, const Operation& operation, const Sum& sum, std::int64_t chunk) {
  const auto most = sum.parts.bytes(0);
  for (std::int64_t done = 0; done < most; done += chunk) {
    for (int step = 1; step < operation.size(); ++step) {
      const int member = after(operation, step);
      const std::int64_t bytes = std::min(chunk, sum.parts.bytes(member) - done);
      if (bytes <= 0) continue;
      batch.send(member, Lane::kData, sum.input + sum.parts.begin(member) + done,
                 unsigned_of(bytes));
    }
  }
}

// The places of the chunks of all members but this one.
std::byte* source_of(const Operation& operation, std::byte* scratch, int member,
                     std::int64_t chunk) {
  return scratch + (member < operation.rank() ? member : member - 1) * chunk;
}

void receive_chunk(Batch& batch, const Operation& operation, std::byte* scratch, std::int64_t chunk,
                   std::int64_t bytes) {
  for (int step = 1; step < operation.size(); ++step) {
    const int member = before(operation, step);
    batch.receive(member, Lane::kData, source_of(operation, scratch, member, chunk),
                  unsigned_of(bytes));
  }
}

// Sources in the order of ranks.
void add(const Operation& operation, int threads, std::byte* output, const std::byte* mine,
         std::span<const std::byte* const> others, std::int64_t bytes) {
  std::vector<const std::byte*> sources(others.begin(), others.end());
  sources.insert(sources.begin() + operation.rank(), mine);
  reduce_by_team(threads, operation.call().dtype, operation.call().reduction, sources,
                 std::span(&output, 1), bytes);
}

// Computes this rank's slice of the sum; chunks arrive while others are added.
Task add_slice(Operation& operation, const Sum& sum) {
  const int others = operation.size() - 1;
  const std::int64_t slice = sum.parts.bytes(operation.rank());
  Engine::Scratch scratch(operation, operation.engine());
  co_await scratch;
  const std::int64_t chunk =
      chunk_of(operation, Engine::scratch_bytes(operation.engine().world_size()));
  const std::byte* mine = sum.input + sum.parts.begin(operation.rank());
  Batch even(operation), odd(operation);
  const auto batch_of = [&](std::int64_t index) -> Batch& { return index % 2 == 0 ? even : odd; };
  const auto memory_of = [&](std::int64_t index) {
    return scratch.data() + (index % 2) * others * chunk;
  };
  const auto begin = [&](std::int64_t index) {
    const std::int64_t bytes = std::min(chunk, slice - index * chunk);
    if (bytes > 0) receive_chunk(batch_of(index), operation, memory_of(index), chunk, bytes);
  };
  begin(0);
  for (std::int64_t index = 0; index * chunk < slice; ++index) {
    begin(index + 1);
    Batch& batch = batch_of(index);
    co_await batch;
    const std::int64_t bytes = std::min(chunk, slice - index * chunk);
    std::vector<const std::byte*> sources;
    for (int member = 0; member < operation.size(); ++member) {
      if (member == operation.rank()) continue;
      sources.push_back(source_of(operation, memory_of(index), member, chunk));
    }
    auto work = [&](int threads) {
      add(operation, threads, sum.output + index * chunk, mine + index * chunk, sources, bytes);
    };
    auto computed = operation.engine().compute(work);
    co_await computed;
  }
}

// Sends each rank its data: chunks are sent as their receivers take them.
Task add_directly(Operation& operation, const Sum& sum) {
  Batch sends(operation);
  compare_around(sends, operation);
  send_chunks(sends, operation, sum,
              chunk_of(operation, Engine::scratch_bytes(operation.engine().world_size())));
  Task adding = add_slice(operation, sum);
  co_await adding;
  co_await sends;
}

// A ring: in each of n - 1 steps a rank passes on what it received last.
Task gather_around(Operation& operation, std::byte* output, const Slices& parts) {
  for (int step = 0; step + 1 < operation.size(); ++step) {
    const int given = before(operation, step), taken = before(operation, step + 1);
    Batch batch(operation);
    if (parts.bytes(taken) > 0) {
      batch.receive(before(operation, 1), Lane::kGather, output + parts.begin(taken),
                    unsigned_of(parts.bytes(taken)));
    }
    if (parts.bytes(given) > 0) {
      batch.send(after(operation, 1), Lane::kGather, output + parts.begin(given),
                 unsigned_of(parts.bytes(given)));
    }
    co_await batch;
  }
}

// Each rank sends `bytes` to each other one. Returns where the received data lies, by member; it
// lives as long as the batch.
template <typename Data>
std::vector<const std::byte*> to_everyone(Batch& batch, const Operation& operation,
                                          std::int64_t bytes, const Data& data_for) {
  std::vector<const std::byte*> came;
  for (int step = 1; step < operation.size(); ++step) {
    const int member = after(operation, step);
    batch.send_headed(member, Lane::kHeader, data_for(member), unsigned_of(bytes));
  }
  for (int member = 0; member < operation.size(); ++member) {
    if (member == operation.rank()) continue;
    came.push_back(batch.receive_headed(member, Lane::kHeader, nullptr, unsigned_of(bytes)).data());
  }
  return came;
}

// All ranks send to the first member, which adds.
Task add_at_first(Operation& operation, std::byte* tensor, std::int64_t bytes) {
  Batch batch(operation);
  compare_around(batch, operation);
  if (operation.rank() != 0) {
    batch.send(0, Lane::kData, tensor, unsigned_of(bytes));
    co_await batch;
    co_return;
  }
  const int others = operation.size() - 1;
  std::vector<std::byte> came(unsigned_of(others * bytes));
  std::vector<const std::byte*> sources;
  for (int member = 1; member <= others; ++member) {
    std::byte* source = came.data() + (member - 1) * bytes;
    batch.receive(member, Lane::kData, source, unsigned_of(bytes));
    sources.push_back(source);
  }
  co_await batch;
  add(operation, 1, tensor, tensor, sources, bytes);
}

// Down a binomial tree from `root`.
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

Task all_reduce(Operation& operation, std::byte* tensor) {
  const std::int64_t bytes = bytes_of(operation.call());
  if (is_small(bytes) && operation.size() <= kFewRanks) {
    Batch batch(operation);
    const auto came = to_everyone(batch, operation, bytes, [&](int) { return tensor; });
    // Awaiting the batch frees the buffers.
    co_await batch.kept();
    add(operation, 1, tensor, tensor, came, bytes);
    co_return;
  }
  if (is_small(bytes)) {
    Task adding = add_at_first(operation, tensor, bytes);
    co_await adding;
    Task spreading = spread(operation, tensor, bytes, 0);
    co_await spreading;
    co_return;
  }
  const Slices parts(bytes, operation.size(), 64);
  const Sum sum{tensor + parts.begin(operation.rank()), tensor, parts};
  Task adding = add_directly(operation, sum);
  co_await adding;
  Task gathering = gather_around(operation, tensor, parts);
  co_await gathering;
}

Task reduce_scatter(Operation& operation, std::byte* output, const std::byte* input) {
  const std::int64_t bytes = bytes_of(operation.call());
  const std::byte* mine = input + operation.rank() * bytes;
  if (is_small(bytes)) {
    Batch batch(operation);
    const auto came =
        to_everyone(batch, operation, bytes, [&](int member) { return input + member * bytes; });
    co_await batch.kept();
    add(operation, 1, output, mine, came, bytes);
    co_return;
  }
  const Sum sum{output, input, Slices(bytes * operation.size(), operation.size(), bytes)};
  Task adding = add_directly(operation, sum);
  co_await adding;
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
  Task gathering = gather_around(operation, output, parts);
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
