#include "phalanx/ops/cases/device_timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "phalanx/base/error.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx::ops {
namespace {

constexpr std::int64_t kHostBytes = std::int64_t{3} << 30;
constexpr std::int64_t kHostWorkspaceBytes = std::int64_t{1} << 30;
// A sample has so many calls that it takes this long.
constexpr double kSampleSeconds = 1e-3;
constexpr int kMostCalls = 100;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

DeviceTimer::DeviceTimer(const CudaPlace& place, DType storage, int host_threads)
    : choice_{.cuda = place}, storage_(storage) {
  expect_device(place);
  facts_ = cuda_interface(place.machine).facts(place.device);
  memory_ = choice_.make_memory();
  backend_ = choice_.make_backend(1);
  planning_ = choice_.make_planning_backend(1);
  host_ = make_cpu_backend(host_threads, cpu::ProductPrecision::kFp32);
}

DeviceTimer::Times DeviceTimer::time(const Case& row, double seconds, std::size_t fewest) {
  // The contents are made on the host. The same calls find the same places on the device.
  Arena host("operands", kHostBytes);
  Arena host_workspace("workspace", kHostWorkspaceBytes);
  Context preparation{.backend = *host_, .workspace = host_workspace};
  Operands contents(host, storage_, preparation);
  row.build(contents);
  const std::int64_t bytes = host.high_water();

  Arena planned = Arena::planning("workspace");
  Context planning{.backend = *planning_, .workspace = planned};
  Arena operands("operands", bytes, *memory_);
  Operands places(operands, storage_, planning);
  const Job job = row.build(places);
  PHALANX_CHECK(operands.high_water() == bytes, "{} bytes of operands, {} on the host",
                operands.high_water(), bytes);
  planned.forget_high_water();
  job.run(planning);
  Arena workspace("workspace", planned.high_water(), *memory_);
  const Queue queue = backend_->queue(StreamKind::kCompute);
  backend_->upload(queue, dense_tensor(operands, 0, DType::kU8, {bytes}),
                   {host.base(), static_cast<std::size_t>(bytes)});
  Context context{.backend = *backend_, .workspace = workspace, .queue = queue};

  // The first call may load kernels or a library.
  sample(context, job, 1);
  const double once = std::max(sample(context, job, 1), 1e-7);
  const int calls =
      is_emulated() ? 1
                    : std::clamp(static_cast<int>(std::ceil(kSampleSeconds / once)), 1, kMostCalls);
  Times times{.cost = job.cost};
  const auto enqueue_begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) job.run(context);
  times.enqueue_seconds = seconds_since(enqueue_begin) / calls;
  const auto begin = std::chrono::steady_clock::now();
  do {
    times.seconds.push_back(sample(context, job, calls));
  } while (times.seconds.size() < fewest || seconds_since(begin) < seconds);
  std::ranges::sort(times.seconds);
  backend_->throw_faults(queue);
  return times;
}

double DeviceTimer::sample(Context& context, const Job& job, int calls) {
  const Event begin = backend_->record_timed(context.queue);
  for (int i = 0; i < calls; ++i) job.run(context);
  const Event end = backend_->record_timed(context.queue);
  backend_->wait_host(end);
  return backend_->seconds(begin, end) / calls;
}

}  // namespace phalanx::ops
