#pragma once
// Counts the large heap allocations of a test program, which gets an operator new of its own.

#include <cstddef>
#include <cstdint>

namespace phalanx {

inline constexpr std::size_t kLargeAllocation = 64 << 10;  // bytes

// Since the last time they were forgotten, by all threads: how many had kLargeAllocation bytes or
// more; the bytes of the largest of all.
std::int64_t large_allocations();
std::size_t largest_allocation();
void forget_allocations();

}  // namespace phalanx
