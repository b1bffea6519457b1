#pragma once
// The memory of this process, as the system reports it.

#include <cstdint>
#include <string_view>

namespace phalanx {

// Bytes of physical memory: now, and the most so far.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

namespace detail {
// The bytes of a line such as "VmHWM:   1024 kB" of /proc/self/status; -1 where there is none.
std::int64_t status_bytes(std::string_view status, std::string_view key);
}  // namespace detail

}  // namespace phalanx
