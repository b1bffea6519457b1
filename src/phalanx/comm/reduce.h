#pragma once
// The arithmetic of every transport on CPUs.

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/base/dtype.h"
#include "phalanx/comm/communicator.h"
#include "phalanx/comm/sum_tree.h"

namespace phalanx {

// The type of sums that are values of other sums: f32 for 16-bit floating-point data, else the
// data's own.
DType partial_dtype(DType dtype);

// What is reduced. `from` and `to` are of the same data: its type, or its partial_dtype().
struct Terms {
  DType from = DType::kF32;  // the sources
  DType to = DType::kF32;    // the destinations
  Reduction reduction = Reduction::kSum;
  int block = kSumBlock;  // of the SumTree
};

// Every destination = the reduction of the sources, for the `count` elements from `first` on. Sums
// are added as SumTree says, the sources being its values. 16-bit types are combined in fp32 over
// the whole tree and rounded once; integers wrap around; a NaN wins over every number. A
// destination may be a source of the same type.
void reduce(const Terms& terms, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::int64_t first, std::int64_t count);

// The same for all `count` elements, by up to `threads` threads, including the calling one, if
// there is enough to do.
void reduce_by_team(int threads, const Terms& terms, std::span<const std::byte* const> sources,
                    std::byte* destination, std::int64_t count);

}  // namespace phalanx
