#include "witness.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "phalanx/ops/cpu/parallel.h"

namespace phalanx::bench {
namespace {

#if defined(__x86_64__)

constexpr int kSlices = 9, kRounds = 500, kAdditions = 64;  // of a round

// Registers are added, not constants, which some processors add without executing anything.
void dependent_additions() {
  std::uint64_t sum = 0;
  const std::uint64_t term = 3;
  for (int round = 0; round < kRounds; ++round) {
    asm volatile(".rept 64\n\tadd %1, %0\n\t.endr" : "+r"(sum) : "r"(term) : "cc");
  }
}

void independent_additions() {
  std::uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
  const std::uint64_t term = 3;
  for (int round = 0; round < kRounds; ++round) {
    asm volatile(
        ".rept 8\n\tadd %8, %0\n\tadd %8, %1\n\tadd %8, %2\n\tadd %8, %3\n\t"
        "add %8, %4\n\tadd %8, %5\n\tadd %8, %6\n\tadd %8, %7\n\t.endr"
        : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h)
        : "r"(term)
        : "cc");
  }
}

// Seconds of each slice, shortest first.
template <typename Body>
std::array<double, kSlices> slices(const Body& body) {
  std::array<double, kSlices> seconds{};
  for (double& slice : seconds) {
    const auto start = std::chrono::steady_clock::now();
    body();
    slice = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::ranges::sort(seconds);
  return seconds;
}

// A chain of additions needs one slot a cycle, which a sibling leaves it.
double of_this_thread() {
  const double cycles = slices(dependent_additions).front();
  const double additions = slices(independent_additions)[kSlices / 2];
  return cycles / additions;
}

#else

double of_this_thread() { return 0.0; }

#endif

}  // namespace

double instructions_per_cycle(int threads) {
  std::vector<double> of_threads(static_cast<std::size_t>(threads));
  cpu::parallel_for(threads, threads, [&](std::int64_t i) {
    of_threads[static_cast<std::size_t>(i)] = of_this_thread();
  });
  return std::ranges::min(of_threads);
}

}  // namespace phalanx::bench
