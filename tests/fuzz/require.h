#pragma once
// What holds for every input.

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>

namespace phalanx {

// Ends the program, which libFuzzer reports together with the input.
template <typename... Args>
void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (holds) return;
  fmt::print(stderr, format, std::forward<Args>(args)...);
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace phalanx
