#pragma once
// The arithmetic of every transport on CPUs.

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/base/dtype.h"
#include "phalanx/comm/communicator.h"

namespace phalanx {

// Every destination = the reduction of the sources in the order given, for the `bytes` bytes from
// `begin` on of each. 16-bit types are combined in fp32 and rounded once; integers wrap around; a
// NaN wins over every number. A destination may be a source.
void reduce(DType dtype, Reduction reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::int64_t begin, std::int64_t bytes);

// The same, by up to `threads` threads, including the calling one, if there is enough to do.
void reduce_by_team(int threads, DType dtype, Reduction reduction,
                    std::span<const std::byte* const> sources,
                    std::span<std::byte* const> destinations, std::int64_t bytes);

}  // namespace phalanx
