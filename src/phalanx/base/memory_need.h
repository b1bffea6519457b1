#pragma once
// Whether what a user's number asks for fits into memory, before it is allocated: the kernel would
// kill the process without a word.

#include <cstdint>
#include <string_view>

#include "phalanx/base/machine.h"

namespace phalanx {

// ConfigError where fewer bytes are available. It says what takes them, as "a sample of
// --seq-length 5", and what to do: "give a smaller --seq-length".
void expect_memory(std::string_view what, double bytes, std::string_view remedy,
                   const AvailableMemory& available = available_memory());

}  // namespace phalanx
