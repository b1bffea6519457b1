// Memory of emulated devices, which nobody may touch but entries that run, and pinned memory.

#include <algorithm>
#include <cstring>

#include "phalanx/base/numeric.h"
#include "phalanx/cuda/emulated/driver_state.h"

namespace phalanx::cuda {

using namespace emulated;

std::byte* allocate(int device, std::int64_t bytes) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  check_size(bytes);
  DeviceState& state = driver.device(device);
  driver.refuse_capture_on(device, "an allocation");
  const std::int64_t size = round_up(std::max<std::int64_t>(bytes, 1), kPage);
  const bool fails = driver.countdown == 0;
  if (driver.countdown >= 0) --driver.countdown;
  // A page without rights lies between two allocations.
  if (fails || state.used + size + kPage > kDeviceBytes) {
    throw SystemError("device {} has no {} for an allocation: {} are free", device,
                      format_bytes(bytes), format_bytes(kDeviceBytes - state.used));
  }
  std::byte* memory = state.base + state.used;
  state.used += size + kPage;
  state.blocks[memory] = bytes;
  mprotect(memory, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE);
  tell_unpoison(memory, static_cast<std::size_t>(size));
  std::memset(memory, 0xff, static_cast<std::size_t>(size));
  tell_poison(memory + bytes, static_cast<std::size_t>(size - bytes));
  mprotect(memory, static_cast<std::size_t>(size), PROT_NONE);
  return memory;
}

void give_back(int device, std::byte* memory) noexcept {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  const auto state = driver.device_states.find(device);
  if (state == driver.device_states.end()) return;
  const auto block = state->second.blocks.find(memory);
  if (block == state->second.blocks.end()) return;
  // As cudaFree, which waits for the device.
  try {
    const Driver::Opened opened(driver);
    while (driver.step()) {
    }
  } catch (const std::exception&) {
    // The device is broken, and says so to the next call.
  }
  tell_unpoison(memory, static_cast<std::size_t>(round_up(block->second, kPage)));
  madvise(memory, static_cast<std::size_t>(round_up(block->second, kPage)), MADV_DONTNEED);
  state->second.blocks.erase(block);
  // What lies behind the last block is free.
  const auto last = state->second.blocks.rbegin();
  state->second.used = last == state->second.blocks.rend()
                           ? 0
                           : last->first - state->second.base +
                                 round_up(std::max<std::int64_t>(last->second, 1), kPage) + kPage;
}

std::byte* allocate_pinned(std::int64_t bytes) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  check_size(bytes);
  auto memory = std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes) + 1);
  std::memset(memory.get(), 0xff, static_cast<std::size_t>(bytes));
  driver.own_pinned[memory.get()] = bytes;
  driver.pinned.push_back({memory.get(), bytes});
  return memory.release();
}

void give_back_pinned(std::byte* memory) noexcept {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  if (driver.own_pinned.erase(memory) == 0) return;
  unregister_host({memory, 0});
  delete[] memory;
}

void register_host(std::span<std::byte> memory) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  driver.pinned.push_back({memory.data(), static_cast<std::int64_t>(memory.size())});
}

void unregister_host(std::span<std::byte> memory) noexcept {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  std::erase_if(driver.pinned, [&](const Range& range) { return range.begin == memory.data(); });
}

}  // namespace phalanx::cuda
