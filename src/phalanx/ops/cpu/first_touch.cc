#include "phalanx/ops/cpu/first_touch.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "phalanx/base/numeric.h"
#include "phalanx/base/progress.h"
#include "phalanx/ops/cpu/parallel.h"

namespace phalanx::cpu {

void touch_first(int threads, const Arena& arena) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const std::int64_t pages = (arena.capacity() + page - 1) / page;
  std::byte* const base = arena.base();
  // Of hundreds of GiB a watcher sees that it goes on.
  constexpr std::int64_t kPagesAtOnce = 1 << 16;
  for (std::int64_t first = 0; first < pages; first += kPagesAtOnce) {
    // Not to be left out as a store of what is there already.
    parallel_for(threads, std::min(kPagesAtOnce, pages - first), [=](std::int64_t i) {
      *static_cast<volatile std::byte*>(base + (first + i) * page) = std::byte{0};
    });
    note_progress();
  }
}

}  // namespace phalanx::cpu
