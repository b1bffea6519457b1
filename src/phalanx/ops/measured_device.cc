#include "phalanx/ops/measured_device.h"

#include <fmt/core.h>

#include <chrono>

#include "phalanx/base/progress.h"
#include "phalanx/ops/checked_device.h"

namespace phalanx {
namespace {

// Rows and columns of the product that is timed: large on a device, on the emulated one nothing is.
constexpr std::int64_t kLargeProduct = 4096;
constexpr std::int64_t kEmulatedProduct = 32;
constexpr int kProducts = 8;  // timed together, behind as many that are not

double product_flops(const CudaPlace& place, DType storage) {
  const CudaInterface& cuda = cuda_interface(place.machine);
  const std::int64_t n = place.machine == CudaMachine::kDevice ? kLargeProduct : kEmulatedProduct;
  const auto memory = cuda.device_memory(place.device);
  const auto backend = cuda.backend(place.device, note_progress);
  Arena operands("a product that is timed", 3 * n * n * size_of(storage), *memory);
  ops::LinearForward op{.y = operands.allocate(storage, {n, n}),
                        .x = operands.allocate(storage, {n, n}),
                        .weight = operands.allocate(storage, {n, n}),
                        .bias = {}};
  Arena workspace("its workspace", backend->workspace_bytes(op) + kArenaAlignment, *memory);
  Context context{.backend = *backend, .workspace = workspace};
  for (const Tensor& operand : {op.x, op.weight}) {
    ops::normal(context, {.x = operand,
                          .key = random_key(1, RandomPurpose::kInitialisation),
                          .parameter = 0,
                          .deviation = 1.0,
                          .global_columns = n});
  }
  const auto run = [&] {
    for (int i = 0; i < kProducts; ++i) ops::linear_forward(context, op);
    backend->wait_host(backend->record(context.queue));
  };
  run();
  const auto begin = std::chrono::steady_clock::now();
  run();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  const auto side = static_cast<double>(n);
  return kProducts * 2.0 * side * side * side / time.count();
}

}  // namespace

DeviceChoice MeasuredDevice::choice() const {
  DeviceChoice choice{products.products};
  if (cuda) choice.cuda = cuda->place;
  return choice;
}

std::string MeasuredDevice::products_text() const {
  if (cuda) return fmt::format("{} (on {})", cuda->products, cuda->name);
  return fmt::format("{} ({})", products.name(), products.reason);
}

std::string MeasuredDevice::peak_text() const {
  if (cuda) return fmt::format("{:.3g} GFLOP/s (a product that was timed)", 1e-9 * cuda->flops);
  return cpu::to_text(peak);
}

std::string MeasuredDevice::unchecked_text() const {
  if (!cuda || cuda->place.machine == CudaMachine::kEmulated) return {};
  const CheckedDevice device{cuda->name, cuda->driver, cuda->products};
  if (is_checked(device)) return {};
  return fmt::format(
      "--device cuda: nobody has checked this device for this user ({}): `phalanx selftest "
      "--device cuda` takes some minutes and says whether it computes what it should",
      device.text());
}

MeasuredDevice measure_device(std::string_view requested, bool stores_bf16, int threads) {
  return {.products = cpu::choose_products(requested, stores_bf16),
          .peak = cpu::measure_peak(threads)};
}

MeasuredDevice measure_device(const CudaPlace& place, DType storage) {
  expect_device(place);
  const CudaInterface& cuda = cuda_interface(place.machine);
  const cuda::Facts facts = cuda.facts(place.device);
  return {.products = {},
          .peak = {},
          .cuda = MeasuredDevice::Cuda{.place = place,
                                       .name = facts.name,
                                       .products = cuda.products(place.device),
                                       .flops = product_flops(place, storage),
                                       .driver = facts.driver_version}};
}

}  // namespace phalanx
