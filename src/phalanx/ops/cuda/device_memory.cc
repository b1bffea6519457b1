#include "phalanx/ops/cuda/device_memory.h"

#include <cstring>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cuda/driver.h"

namespace phalanx::cuda {
namespace {

class DeviceMemory final : public ArenaMemory {
 public:
  explicit DeviceMemory(int device) : device_(device), queue_(make_queue(device)) {}
  ~DeviceMemory() override { cuda::give_back(queue_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  MemorySpace space() const override { return MemorySpace::kDevice; }

  std::byte* reserve(std::string_view arena, std::int64_t bytes) override {
    std::byte* memory = nullptr;
    try {
      memory = allocate(device_, bytes);
    } catch (const SystemError& error) {
      throw SystemError("arena {} of {}: {}", arena, format_bytes(bytes), error.what());
    }
    set_bytes(queue_, memory, 0, bytes);
    wait_host(queue_);
    return memory;
  }

  void give_back(std::byte* base, std::int64_t /*bytes*/) noexcept override {
    cuda::give_back(device_, base);
  }

 private:
  int device_;
  Queue queue_;
};

class PinnedMemory final : public ArenaMemory {
 public:
  MemorySpace space() const override { return MemorySpace::kPinned; }

  std::byte* reserve(std::string_view arena, std::int64_t bytes) override {
    std::byte* memory = nullptr;
    try {
      memory = allocate_pinned(bytes);
    } catch (const SystemError& error) {
      throw SystemError("arena {} of {}: {}", arena, format_bytes(bytes), error.what());
    }
    std::memset(memory, 0, static_cast<std::size_t>(bytes));
    return memory;
  }

  void give_back(std::byte* base, std::int64_t /*bytes*/) noexcept override {
    give_back_pinned(base);
  }
};

}  // namespace

std::unique_ptr<ArenaMemory> device_memory(int device) {
  return std::make_unique<DeviceMemory>(device);
}
std::unique_ptr<ArenaMemory> pinned_memory() { return std::make_unique<PinnedMemory>(); }

}  // namespace phalanx::cuda
