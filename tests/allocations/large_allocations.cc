#include "large_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace phalanx {
namespace {

std::atomic<std::int64_t> large = 0;
std::atomic<std::size_t> largest = 0;

void count(std::size_t bytes) {
  if (bytes >= kLargeAllocation) ++large;
  std::size_t before = largest;
  while (bytes > before && !largest.compare_exchange_weak(before, bytes)) {
  }
}

}  // namespace

std::int64_t large_allocations() { return large; }
std::size_t largest_allocation() { return largest; }
void forget_allocations() {
  large = 0;
  largest = 0;
}

}  // namespace phalanx

// The forms for arrays and those that do not throw call these.
void* operator new(std::size_t bytes) {
  phalanx::count(bytes);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  phalanx::count(bytes);
  const auto unit = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
