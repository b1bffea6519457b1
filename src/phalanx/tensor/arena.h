#pragma once
// Arenas: the only owners of tensor memory. Each is sized once from the memory plan and never
// grows; its high-water mark is compared with the plan after the run's first step. A planning arena
// has no memory: it hands out offsets and remembers how far they went, which is how plans are made.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "phalanx/base/dtype.h"
#include "phalanx/base/shape.h"

namespace phalanx {

enum class MemorySpace : std::uint8_t {
  kHost,    // memory of this process
  kPinned,  // memory of this process that an accelerator copies from and to
  kDevice,  // memory of an accelerator
  kNone,    // planning: offsets without memory
};

struct Tensor;

// Every allocation starts at a multiple of this many bytes.
inline constexpr std::int64_t kArenaAlignment = 256;

// Whether this process may read and write the bytes.
constexpr bool is_host(MemorySpace space) {
  return space == MemorySpace::kHost || space == MemorySpace::kPinned;
}

// Where an arena's memory comes from.
class ArenaMemory {
 public:
  virtual ~ArenaMemory() = default;
  virtual MemorySpace space() const = 0;
  // `bytes` (> 0), zero-filled. SystemError names the arena if there are not so many.
  virtual std::byte* reserve(std::string_view arena, std::int64_t bytes) = 0;
  virtual void give_back(std::byte* base, std::int64_t bytes) noexcept = 0;
};

// Memory of this process; huge pages are advised.
ArenaMemory& host_memory();

class Arena {
 public:
  // A planning arena of unlimited capacity.
  static Arena planning(std::string name) { return Arena(std::move(name)); }

  // `capacity` bytes of `memory`, which must outlive the arena. SystemError if it has not so many.
  Arena(std::string name, std::int64_t capacity, ArenaMemory& memory = host_memory());

  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // The next free bytes as a dense tensor. InternalError when the planned capacity does not
  // suffice.
  Tensor allocate(DType dtype, const Shape& shape);
  // A dense tensor at an offset that a packing has fixed.
  Tensor place(std::int64_t offset, DType dtype, const Shape& shape);

  // Stack discipline for workspace: what was allocated after mark() is free again after release().
  std::int64_t mark() const { return used_; }
  void release(std::int64_t mark);

  const std::string& name() const { return name_; }
  MemorySpace space() const { return space_; }
  std::int64_t capacity() const { return capacity_; }
  std::int64_t high_water() const { return high_water_; }
  // From now on the mark is that of what comes.
  void forget_high_water() { high_water_ = used_; }
  // Null on a planning arena. An address that only kernels may follow where !is_host(space()).
  std::byte* base() const { return base_; }

 private:
  explicit Arena(std::string name)
      : name_(std::move(name)),
        space_(MemorySpace::kNone),
        capacity_(std::numeric_limits<std::int64_t>::max() / 2) {}
  void touch(std::int64_t end);

  std::string name_;
  ArenaMemory* memory_ = nullptr;
  MemorySpace space_;
  std::int64_t capacity_;
  std::int64_t used_ = 0;
  std::int64_t high_water_ = 0;
  std::byte* base_ = nullptr;
};

// Frees on leaving a scope what was allocated from the workspace within it.
class WorkspaceScope {
 public:
  explicit WorkspaceScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  WorkspaceScope(const WorkspaceScope&) = delete;
  WorkspaceScope& operator=(const WorkspaceScope&) = delete;
  ~WorkspaceScope() { arena_.release(mark_); }

 private:
  Arena& arena_;
  std::int64_t mark_;
};

}  // namespace phalanx
