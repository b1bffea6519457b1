#include "phalanx/tensor/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx {
namespace {
constexpr std::int64_t kHugePage = 2 << 20;
}  // namespace

Arena::Arena(std::string name, std::int64_t capacity)
    : name_(std::move(name)), space_(MemorySpace::kHost), capacity_(capacity) {
  if (capacity == 0) return;
  void* address =
      ::mmap(nullptr, static_cast<std::size_t>(round_up(capacity, kHugePage)),
             PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    throw SystemError("arena {}: the system has not {} of memory: {}", name_,
                      format_bytes(capacity), std::strerror(errno));
  }
  // Advice only: without huge pages the kernels run, up to 1.6x slower on large weights.
  ::madvise(address, static_cast<std::size_t>(capacity), MADV_HUGEPAGE);
  base_ = static_cast<std::byte*>(address);
}

Arena::Arena(Arena&& other) noexcept
    : name_(std::move(other.name_)),
      space_(other.space_),
      capacity_(other.capacity_),
      used_(other.used_),
      high_water_(other.high_water_),
      base_(std::exchange(other.base_, nullptr)) {}

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(base_, static_cast<std::size_t>(round_up(capacity_, kHugePage)));
}

Tensor Arena::allocate(DType dtype, const Shape& shape) {
  const std::int64_t offset = used_;
  const Tensor tensor = place(offset, dtype, shape);
  used_ = round_up(offset + tensor.bytes(), kArenaAlignment);
  touch(used_);
  return tensor;
}

Tensor Arena::place(std::int64_t offset, DType dtype, const Shape& shape) {
  const Tensor tensor = dense_tensor(*this, offset, dtype, shape);
  touch(round_up(offset + tensor.bytes(), kArenaAlignment));
  return tensor;
}

void Arena::release(std::int64_t mark) {
  PHALANX_CHECK(mark <= used_, "arena {}: released to {} of {}", name_, mark, used_);
  used_ = mark;
}

void Arena::touch(std::int64_t end) {
  PHALANX_CHECK(end <= capacity_, "arena {}: the plan gave {} bytes, {} are needed", name_,
                capacity_, end);
  high_water_ = std::max(high_water_, end);
}

}  // namespace phalanx
