#pragma once
// What collectives are made of: places in a group, sizes, and exchanges that several of them begin
// with.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "phalanx/comm/ucx/operation.h"

namespace phalanx::ucx {

// In groups up to this size every rank sends small data to every other one.
constexpr int kFewRanks = 16;

inline std::int64_t bytes_of(const Call& call) { return call.count * size_of(call.dtype); }

inline bool is_small(std::int64_t bytes) { return bytes <= static_cast<std::int64_t>(kSmallBytes); }

inline std::size_t unsigned_of(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

// The members so many steps after and before this rank, round the group.
inline int after(const Operation& operation, int steps) {
  return (operation.rank() + steps) % operation.size();
}
inline int before(const Operation& operation, int steps) {
  return (operation.rank() + operation.size() - steps) % operation.size();
}

inline void copy(void* to, const void* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, unsigned_of(bytes));
}

// Every rank sends its call's header to the next one, so that some rank notices if the calls of a
// group differ. Collectives in which every rank sends to every other one need no more.
inline void compare_around(Batch& batch, const Operation& operation) {
  batch.send_headed(after(operation, 1), Lane::kHeader, nullptr, 0);
  batch.receive_headed(before(operation, 1), Lane::kHeader, nullptr, 0);
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

// The bytes of a tensor that a member owns: slices of whole granules, the last ones maybe shorter.
struct Slices {
  std::int64_t slice = 0;
  std::int64_t total = 0;

  Slices(std::int64_t bytes, int members, std::int64_t granule)
      : slice(((bytes + granule - 1) / granule + members - 1) / members * granule), total(bytes) {}
  std::int64_t begin(int member) const { return std::min(member * slice, total); }
  std::int64_t bytes(int member) const { return begin(member + 1) - begin(member); }
};

}  // namespace phalanx::ucx
