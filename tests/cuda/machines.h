#pragma once
// Machines that the same training runs on: the processor, the emulated device, and the planning
// backend that knows the device's scratch sizes.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/ops/backend.h"

namespace phalanx {

// Bytes of the two arenas of a training.
struct MemoryUse {
  std::int64_t tensors = 0;
  std::int64_t workspace = 0;

  bool operator==(const MemoryUse&) const = default;
};

class TrainingMachine {
 public:
  // With products of bf16 where that is stored and the processor has them: they round the
  // probabilities of attention to bf16, as tensor cores must, and then losses are a device's to
  // 1e-8 until some other sum is rounded to its neighbour. Products of fp32 keep probabilities.
  static TrainingMachine processor(DType storage);
  static bool rounds_as_devices(DType storage);
  static TrainingMachine planning();
  // With arenas of so many bytes.
  static TrainingMachine device(const MemoryUse& memory);

  Backend& backend() { return *backend_; }
  Context& context() { return *context_; }
  Arena& tensors() { return *tensors_; }
  Queue queue(StreamKind kind) const { return backend_->queue(kind); }
  // What comes in `later` runs after what is in `earlier` now.
  void order(StreamKind earlier, StreamKind later);
  MemoryUse use() const { return {tensors_->high_water(), workspace_->high_water()}; }

  template <typename T>
  void upload(StreamKind kind, const Tensor& to, const std::vector<T>& values) {
    backend_->upload(queue(kind), to, std::as_bytes(std::span(values)));
  }

 private:
  TrainingMachine(std::unique_ptr<Backend> backend, std::unique_ptr<ArenaMemory> memory,
                  const std::function<Arena(const char*, std::int64_t)>& arena,
                  const MemoryUse& bytes);

  std::unique_ptr<ArenaMemory> memory_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Arena> tensors_;
  std::unique_ptr<Arena> workspace_;
  std::unique_ptr<Context> context_;
};

// What a training gave, in bits.
struct TrainingResult {
  std::vector<double> losses;  // of the steps
  std::vector<std::byte> weights;
  MemoryUse memory;

  bool same_bits(const TrainingResult& other) const {
    return losses == other.losses && weights == other.weights;
  }
};

using Training = std::function<TrainingResult(TrainingMachine&)>;

struct DeviceOrder {
  cuda::QueueOrder order = cuda::QueueOrder::kFirst;
  std::uint64_t seed = 0;  // of the order of queues, and of threads
};

// The training on the emulated device, in arenas of the planned size.
TrainingResult train_on_device(const Training& training, const DeviceOrder& order);
// In three orders of queues: what all gave alike; a failure where they did not. With three seeds
// each, or one each and three at night.
enum class Seeds : std::uint8_t { kOne, kThree };
TrainingResult train_in_all_orders(const Training& training, Seeds seeds = Seeds::kThree);
// The losses of both, and the memory of the device's arenas, which is what was planned.
void expect_processors_losses(const Training& training, DType storage, const TrainingResult& device,
                              double tolerance);

}  // namespace phalanx
