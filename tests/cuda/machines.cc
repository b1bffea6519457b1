#include "machines.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "phalanx/base/progress.h"
#include "phalanx/cuda/emulated/machine.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/cuda/cuda_backend.h"
#include "phalanx/ops/cuda/device_memory.h"
#include "phalanx/ops/meta/meta_backend.h"

namespace phalanx {
namespace {

constexpr MemoryUse kProcessorMemory{16 << 20, 16 << 20};

}  // namespace

TrainingMachine::TrainingMachine(std::unique_ptr<Backend> backend,
                                 std::unique_ptr<ArenaMemory> memory,
                                 const std::function<Arena(const char*, std::int64_t)>& arena,
                                 const MemoryUse& bytes)
    : memory_(std::move(memory)),
      backend_(std::move(backend)),
      tensors_(std::make_unique<Arena>(arena("tensors", bytes.tensors))),
      workspace_(std::make_unique<Arena>(arena("workspace", bytes.workspace))),
      context_(std::make_unique<Context>(Context{
          .backend = *backend_, .workspace = *workspace_, .queue = queue(StreamKind::kCompute)})) {}

bool TrainingMachine::rounds_as_devices(DType storage) {
  return storage != DType::kBF16 || cpu::has_products(cpu::ProductPrecision::kBf16);
}

TrainingMachine TrainingMachine::processor(DType storage) {
  const bool in_pairs = storage == DType::kBF16 && cpu::has_products(cpu::ProductPrecision::kBf16);
  return {
      make_cpu_backend(1, in_pairs ? cpu::ProductPrecision::kBf16 : cpu::ProductPrecision::kFp32),
      nullptr, [](const char* name, std::int64_t bytes) { return Arena(name, bytes); },
      kProcessorMemory};
}

TrainingMachine TrainingMachine::planning() {
  return {make_meta_backend(cuda_workspace_sizes(cuda::sizes_of(0))),
          nullptr,
          [](const char* name, std::int64_t /*bytes*/) { return Arena::planning(name); },
          {}};
}

TrainingMachine TrainingMachine::device(const MemoryUse& bytes) {
  auto memory = cuda::device_memory(0);
  ArenaMemory& of_device = *memory;
  return {make_cuda_backend(0, note_progress), std::move(memory),
          [&of_device](const char* name, std::int64_t capacity) {
            return Arena(name, capacity, of_device);
          },
          bytes};
}

void TrainingMachine::order(StreamKind earlier, StreamKind later) {
  backend_->wait(queue(later), backend_->record(queue(earlier)));
}

TrainingResult train_on_device(const Training& training, const DeviceOrder& order) {
  cuda::reset_driver();
  MemoryUse planned;
  {
    TrainingMachine planning = TrainingMachine::planning();
    planned = training(planning).memory;
  }
  cuda::set_queue_order(order.order, order.seed);
  cuda::emulated_machine().set_seed(order.seed);
  TrainingResult result;
  {
    TrainingMachine device = TrainingMachine::device(planned);
    result = training(device);
  }
  EXPECT_EQ(result.memory, planned)
      << result.memory.tensors << " and " << result.memory.workspace << " bytes, planned are "
      << planned.tensors << " and " << planned.workspace;
  cuda::reset_driver();
  return result;
}

TrainingResult train_in_all_orders(const Training& training, Seeds seeds) {
  const bool every_seed = seeds == Seeds::kThree || std::getenv("PHALANX_NIGHTLY") != nullptr;
  std::optional<TrainingResult> first;
  for (const auto order :
       {cuda::QueueOrder::kFirst, cuda::QueueOrder::kLast, cuda::QueueOrder::kAny}) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      if (!every_seed && seed != static_cast<std::uint64_t>(order)) continue;
      TrainingResult result = train_on_device(training, {order, seed});
      if (!first)
        first = std::move(result);
      else
        EXPECT_TRUE(first->same_bits(result)) << static_cast<int>(order) << " " << seed;
    }
  }
  return *first;
}

void expect_processors_losses(const Training& training, DType storage, const TrainingResult& device,
                              double tolerance) {
  TrainingMachine processor = TrainingMachine::processor(storage);
  const TrainingResult expected = training(processor);
  ASSERT_EQ(device.losses.size(), expected.losses.size());
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    const double loss = expected.losses[step];
    EXPECT_NEAR(device.losses[step], loss, tolerance * std::abs(loss)) << "step " << step;
  }
  EXPECT_LT(expected.losses.back(), 0.9 * expected.losses.front()) << "it does not learn";
}

}  // namespace phalanx
