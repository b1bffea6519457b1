#include "phalanx/tensor/arena.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "phalanx/tensor/tensor.h"

namespace phalanx {
namespace {

// Memory that a device alone may follow: an address of nothing.
class FarMemory final : public ArenaMemory {
 public:
  MemorySpace space() const override { return MemorySpace::kDevice; }
  std::byte* reserve(std::string_view arena, std::int64_t bytes) override {
    if (bytes > 4096) throw SystemError("arena {}: the device has not {} bytes", arena, bytes);
    log.push_back("reserve " + std::string(arena) + " " + std::to_string(bytes));
    return base();
  }
  void give_back(std::byte* address, std::int64_t bytes) noexcept override {
    EXPECT_EQ(address, base());
    log.push_back("give back " + std::to_string(bytes));
  }
  static std::byte* base() { return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40); }

  std::vector<std::string> log;
};

TEST(ArenaTest, MemoryOfTheHostIsZerosAndReadable) {
  Arena arena("states", 1 << 20);
  EXPECT_EQ(arena.space(), MemorySpace::kHost);
  const Tensor tensor = arena.allocate(DType::kF32, {3, 5});
  EXPECT_EQ(tensor.address(), tensor.data());
  for (const float value : tensor.span<float>()) EXPECT_EQ(value, 0.0F);
}

TEST(ArenaTest, OwnMemoryIsReservedOnceAndGivenBackOnce) {
  FarMemory memory;
  {
    Arena arena("states", 1024, memory);
    Arena moved = std::move(arena);
    EXPECT_EQ(moved.space(), MemorySpace::kDevice);
    moved.allocate(DType::kF32, {2});
    const Tensor second = moved.allocate(DType::kF32, {2});
    EXPECT_EQ(second.address(), FarMemory::base() + kArenaAlignment);
  }
  EXPECT_EQ(memory.log, (std::vector<std::string>{"reserve states 1024", "give back 1024"}));
  { const Arena empty("empty", 0, memory); }
  EXPECT_EQ(memory.log.size(), 2U);
  EXPECT_THROW(Arena("states", 8192, memory), SystemError);
}

TEST(ArenaTest, TheHostMayNotReadTheMemoryOfADevice) {
  FarMemory memory;
  Arena arena("states", 1024, memory);
  const Tensor tensor = arena.allocate(DType::kF32, {2});
  EXPECT_THROW(tensor.data(), InternalError);
  EXPECT_THROW(tensor.as<float>(), InternalError);
  EXPECT_THROW(tensor.span<float>(), InternalError);
  EXPECT_FALSE(is_host(tensor.space));
}

}  // namespace
}  // namespace phalanx
