#include "phalanx/tensor/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/memory_limits.h"
#include "phalanx/base/numeric.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx {
namespace {
constexpr std::int64_t kHugePage = 2 << 20;

class ProcessMemory final : public ArenaMemory {
 public:
  MemorySpace space() const override { return MemorySpace::kHost; }

  std::byte* reserve(std::string_view arena, std::int64_t bytes) override {
    void* address =
        ::mmap(nullptr, static_cast<std::size_t>(round_up(bytes, kHugePage)),
               PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
      const int reason = errno;  // reading the limits may change it
      const std::string limits = memory_limits();
      throw SystemError("arena {}: the system has not {} of memory: {}{}", arena,
                        format_bytes(bytes), std::strerror(reason),
                        limits.empty() ? "" : fmt::format(" ({})", limits));
    }
    // Advice only: without huge pages the kernels run, up to 1.6x slower on large weights.
    ::madvise(address, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
    return static_cast<std::byte*>(address);
  }

  void give_back(std::byte* base, std::int64_t bytes) noexcept override {
    ::munmap(base, static_cast<std::size_t>(round_up(bytes, kHugePage)));
  }
};

}  // namespace

ArenaMemory& host_memory() {
  static ProcessMemory memory;  // without state
  return memory;
}

Arena::Arena(std::string name, std::int64_t capacity, ArenaMemory& memory)
    : name_(std::move(name)), memory_(&memory), space_(memory.space()), capacity_(capacity) {
  if (capacity > 0) base_ = memory.reserve(name_, capacity);
}

Arena::Arena(Arena&& other) noexcept
    : name_(std::move(other.name_)),
      memory_(other.memory_),
      space_(other.space_),
      capacity_(other.capacity_),
      used_(other.used_),
      high_water_(other.high_water_),
      base_(std::exchange(other.base_, nullptr)) {}

Arena::~Arena() {
  if (base_ != nullptr) memory_->give_back(base_, capacity_);
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
