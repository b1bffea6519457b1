#include "phalanx/ops/cpu/first_touch.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/base/progress.h"
#include "phalanx/ops/cpu/parallel.h"

namespace phalanx::cpu {
namespace {

constexpr std::int64_t kPiece = 2 << 20;  // a huge page

void touch_pages(std::byte* begin, std::int64_t bytes) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  for (std::int64_t at = 0; at < bytes; at += page) {
    // Volatile, or the compiler may drop the store of an unchanged value.
    *static_cast<volatile std::byte*>(begin + at) = std::byte{0};
  }
}

// Returns 0 or errno.
int populate(std::byte* begin, std::int64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  while (::madvise(begin, static_cast<std::size_t>(bytes), MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) return errno;
    // Kernels before 5.14 lack the advice.
    touch_pages(begin, bytes);
    break;
  }
#else
  touch_pages(begin, bytes);
#endif
  return 0;
}

}  // namespace

FirstTouch::FirstTouch(int threads, const Arena& arena)
    : threads_(threads), arena_(arena), pieces_(ceil_div(arena.capacity(), kPiece)) {}

FirstTouch::Range FirstTouch::share(int thread, std::int64_t from, std::int64_t pieces) const {
  const std::int64_t begin = pieces_ * thread / threads_;
  const std::int64_t end = pieces_ * (thread + 1) / threads_;
  const auto byte = [&](std::int64_t piece) {
    return std::min(arena_.capacity(), std::min(end, piece) * kPiece);
  };
  return {byte(begin + from), byte(begin + from + pieces)};
}

std::int64_t FirstTouch::left() const {
  std::int64_t bytes = 0;
  for (int thread = 0; thread < threads_; ++thread) {
    const Range rest = share(thread, taken_, pieces_);
    bytes += rest.end - rest.begin;
  }
  return bytes;
}

void FirstTouch::take(std::int64_t bytes) {
  const std::int64_t pieces =
      std::max<std::int64_t>(1, ceil_div(ceil_div(bytes, kPiece), threads_));
  std::atomic<int> error = 0;
  parallel_for(threads_, threads_, [&](std::int64_t thread) {
    const Range range = share(static_cast<int>(thread), taken_, pieces);
    if (range.begin == range.end) return;
    const int failure = populate(arena_.base() + range.begin, range.end - range.begin);
    if (failure != 0) error = failure;
  });
  taken_ += pieces;
  note_progress();
  if (error != 0) {
    throw SystemError("arena {}: the system has not {} of memory: {}", arena_.name(),
                      format_bytes(arena_.capacity()), std::strerror(error));
  }
}

}  // namespace phalanx::cpu
