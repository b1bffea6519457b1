#pragma once
// A device for tests of the program around it. Its tensors lie in memory that this process may
// neither read nor write: a host that does so ends there. The device computes with the CPU's
// kernels on a copy of the memory that it alone knows, so results are those of the CPU, bit for
// bit. Its communicators carry its tensors and no others.

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/comm/communicator.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/tensor/arena.h"

namespace phalanx::testing_support {

class DeviceMemory final : public ArenaMemory {
 public:
  MemorySpace space() const override { return MemorySpace::kDevice; }

  std::byte* reserve(std::string_view arena, std::int64_t bytes) override {
    void* address = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    PHALANX_CHECK(address != MAP_FAILED, "no addresses for {}", arena);
    auto* base = static_cast<std::byte*>(address);
    copies_.try_emplace(base, std::string(arena), bytes);
    return base;
  }
  void give_back(std::byte* base, std::int64_t bytes) noexcept override {
    ::munmap(base, static_cast<std::size_t>(bytes));
    copies_.erase(base);
  }

  // The arenas whose tensors ops may have; they must stay where they are.
  void know(const std::vector<Arena>& arenas) {
    for (const Arena& arena : arenas) {
      if (arena.space() == MemorySpace::kDevice) arenas_[&arena] = arena.base();
    }
  }
  // The tensor in the memory that the device knows.
  Tensor inside(Tensor tensor) {
    PHALANX_CHECK(tensor.space == MemorySpace::kDevice, "a tensor of arena {} on the device",
                  tensor.arena->name());
    tensor.arena = copy_of(tensor.arena);
    tensor.space = MemorySpace::kHost;
    return tensor;
  }
  // Every tensor in the bytes of an op.
  void bring_inside(std::span<std::byte> op) {
    for (std::size_t at = 0; at + sizeof(Tensor) <= op.size(); at += alignof(Tensor)) {
      const Arena* arena = nullptr;
      std::memcpy(&arena, &op[at], sizeof arena);
      if (!arenas_.contains(arena)) continue;
      Tensor tensor;
      std::memcpy(static_cast<void*>(&tensor), &op[at], sizeof tensor);
      // Bytes between the members of an op may hold anything.
      if (tensor.space != MemorySpace::kDevice) continue;
      tensor = inside(tensor);
      std::memcpy(&op[at], &tensor, sizeof tensor);
    }
  }

 private:
  Arena* copy_of(const Arena* arena) {
    // An empty arena has no memory anywhere.
    return arena->base() == nullptr ? &nothing_ : &copies_.at(arenas_.at(arena));
  }

  std::map<const std::byte*, Arena> copies_;  // by base
  std::map<const Arena*, const std::byte*> arenas_;
  Arena nothing_{"nothing", 0};
};

// What a kernel needs of an op of unknown type, by number.
struct OpRunner {
  std::size_t size;
  void (*run)(Backend& kernels, Queue queue, const void* op, const Tensor& scratch);
};
template <typename... Ops>
constexpr auto op_runners(ops::OpListOf<Ops...> /*list*/) {
  static_assert((std::is_trivially_copyable_v<Ops> && ...));
  return std::to_array<OpRunner>(
      {{sizeof(Ops), [](Backend& kernels, Queue queue, const void* op, const Tensor& scratch) {
          kernels.run(queue, *static_cast<const Ops*>(op), scratch);
        }}...});
}

class TestDevice final : public Backend {
 public:
  explicit TestDevice(DeviceMemory& memory)
      : memory_(memory), kernels_(make_cpu_backend(1, cpu::ProductPrecision::kFp32)) {}

  MemorySpace space() const override { return MemorySpace::kDevice; }
  std::int64_t workspace_bytes_of_op(std::size_t number, const void* op) const override {
    const auto inside = brought_inside(number, op);
    return kernels_->workspace_bytes_of_op(number, inside.data());
  }
  void upload(Queue queue, const Tensor& to, std::span<const std::byte> from) override {
    kernels_->upload(queue, memory_.inside(to), from);
  }
  ReadBack read_later(Queue queue, const Tensor& from) override {
    return kernels_->read_later(queue, memory_.inside(from));
  }
  void read_back(Queue queue, const Tensor& from, std::span<std::byte> to) override {
    kernels_->read_back(queue, memory_.inside(from), to);
  }
  Event record(Queue /*queue*/) override { return {}; }
  void wait(Queue /*queue*/, Event /*event*/) override {}
  bool passed(Event /*event*/) override { return true; }
  void wait_host(Event /*event*/) override {}
  LaterFaults faults_later(Queue /*queue*/) override {
    return LaterFaults([this] {
      if (!fault.empty()) throw InternalError("{}", fault);
    });
  }

  std::string fault;  // that its kernels have found

 private:
  void run_op(Queue queue, std::size_t number, const void* op, const Tensor& scratch) override {
    const auto inside = brought_inside(number, op);
    kRunners[number].run(*kernels_, queue, inside.data(), memory_.inside(scratch));
  }
  // A copy of the op with the tensors that the device knows.
  std::vector<std::max_align_t> brought_inside(std::size_t number, const void* op) const {
    const std::size_t size = kRunners[number].size;
    std::vector<std::max_align_t> room(size / sizeof(std::max_align_t) + 1);
    std::memcpy(room.data(), op, size);
    memory_.bring_inside(std::as_writable_bytes(std::span(room)).first(size));
    return room;
  }

  static constexpr auto kRunners = op_runners(ops::OpList());

  DeviceMemory& memory_;
  std::unique_ptr<Backend> kernels_;
};

// Ranks that exchange tensors of their devices.
class DeviceCommunicator final : public Communicator {
 public:
  // All must outlive it.
  DeviceCommunicator(Communicator& inner, DeviceMemory& memory)
      : Communicator(inner.rank(), inner.group()), inner_(inner), memory_(memory) {}
  DeviceCommunicator(std::unique_ptr<Communicator> inner, DeviceMemory& memory)
      : DeviceCommunicator(*inner, memory) {
    owned_ = std::move(inner);
  }

  std::unique_ptr<Communicator> split(std::span<const std::vector<int>> groups,
                                      std::string name) override {
    auto inner = inner_.split(groups, std::move(name));
    if (!inner) return nullptr;
    return std::make_unique<DeviceCommunicator>(std::move(inner), memory_);
  }
  void abort(std::string_view reason) noexcept override { inner_.abort(reason); }

 protected:
  Work start_all_reduce(Context& context, const Tensor& tensor, Reduction reduction) override {
    Context silent = unrecorded(context);
    return inner_.all_reduce(silent, memory_.inside(tensor), reduction);
  }
  Work start_reduce_scatter(Context& context, const Tensor& output, const Tensor& input,
                            Reduction reduction) override {
    Context silent = unrecorded(context);
    return inner_.reduce_scatter(silent, memory_.inside(output), memory_.inside(input), reduction);
  }
  Work start_all_gather(Context& context, const Tensor& output, const Tensor& input) override {
    Context silent = unrecorded(context);
    return inner_.all_gather(silent, memory_.inside(output), memory_.inside(input));
  }
  Work start_broadcast(Context& context, const Tensor& tensor, int root) override {
    Context silent = unrecorded(context);
    return inner_.broadcast(silent, memory_.inside(tensor), root);
  }
  Work start_all_to_all(Context& context, const Tensor& output, std::span<const std::int64_t> from,
                        const Tensor& input, std::span<const std::int64_t> to) override {
    Context silent = unrecorded(context);
    return inner_.all_to_all(silent, memory_.inside(output), from, memory_.inside(input), to);
  }
  void start_barrier(Context& /*context*/) override {
    PHALANX_CHECK(false, "{}: hosts meet over the control communicator", name());
  }
  Work start_exchange(Context& context, std::span<const PointToPoint> messages) override {
    std::vector<PointToPoint> inside(messages.begin(), messages.end());
    for (PointToPoint& message : inside) message.tensor = memory_.inside(message.tensor);
    Context silent = unrecorded(context);
    return inner_.exchange(silent, inside);
  }
  void begin_busy(std::string /*what*/) override {
    PHALANX_CHECK(false, "{}: hosts say over the control communicator that they are busy", name());
  }
  void end_busy() noexcept override {}

 private:
  static Context unrecorded(const Context& context) {
    return {.backend = context.backend, .workspace = context.workspace, .queue = context.queue};
  }

  Communicator& inner_;
  std::unique_ptr<Communicator> owned_;
  DeviceMemory& memory_;
};

}  // namespace phalanx::testing_support
