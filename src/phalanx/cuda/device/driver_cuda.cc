// driver.h on the CUDA runtime.

// Where there is no toolkit this file is empty.
#if defined(PHALANX_CUDA_TOOLKIT)

#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "phalanx/base/error.h"
#include "phalanx/cuda/driver.h"

namespace phalanx::cuda {

// As kernel_device.h has it, which nvcc alone reads.
struct Kernel {
  const char* name;
  const void* entry;
};

namespace {

// `what` failed; without a driver or a device that is said instead.
void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const char* text = cudaGetErrorString(status);
  switch (status) {
    case cudaErrorInsufficientDriver:
      throw UnavailableError(
          "CUDA: no driver, or one older than CUDA {}.0: install NVIDIA's driver, or give "
          "--device cpu",
          CUDART_VERSION / 1000);
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      throw UnavailableError("CUDA: {} failed: {}", what, text);
    default:
      throw SystemError("CUDA: {} failed: {} ({})", what, text, cudaGetErrorName(status));
  }
}

void use(int device) { check(cudaSetDevice(device), "cudaSetDevice"); }

cudaStream_t stream_of(Queue queue) {
  return reinterpret_cast<cudaStream_t>(queue.id);  // NOLINT(performance-no-int-to-ptr)
}
cudaEvent_t event_of(Mark mark) {
  return reinterpret_cast<cudaEvent_t>(mark.id);  // NOLINT(performance-no-int-to-ptr)
}
cudaGraphExec_t graph_of(Graph graph) {
  return reinterpret_cast<cudaGraphExec_t>(graph.id);  // NOLINT(performance-no-int-to-ptr)
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

// More than 48 KiB of shared memory is asked for once per kernel and device.
void allow_shared(const Kernel& kernel, std::int64_t bytes) {
  constexpr std::int64_t kWithoutAsking = 48 << 10;
  if (bytes <= kWithoutAsking) return;
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, std::int64_t> allowed;
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard<std::mutex> lock(mutex);
  std::int64_t& most = allowed[{kernel.entry, device}];
  if (bytes <= most) return;
  check(cudaFuncSetAttribute(kernel.entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        kernel.name);
  most = bytes;
}

}  // namespace

int device_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) return 0;
  check(status, "cudaGetDeviceCount");
  return count;
}

DriverFacts driver_facts() {
  DriverFacts facts;
  // Minor versions of one toolkit run on the drivers of all others.
  facts.needed = CUDART_VERSION / 1000 * 1000;
  check(cudaDriverGetVersion(&facts.version), "cudaDriverGetVersion");
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    facts.error = cudaGetErrorString(status);
    cudaGetLastError();
  }
  return facts;
}

Facts facts(int device) {
  use(device);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::size_t free_bytes = 0;
  std::size_t bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &bytes), "cudaMemGetInfo");
  Facts facts;
  facts.name = properties.name;
  facts.major = properties.major;
  facts.minor = properties.minor;
  facts.processors = properties.multiProcessorCount;
  facts.memory_bytes = static_cast<std::int64_t>(bytes);
  facts.free_bytes = static_cast<std::int64_t>(free_bytes);
  facts.shared_bytes_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  facts.second_level_cache_bytes = properties.l2CacheSize;
  // Two transfers a clock, which is in kHz.
  facts.memory_bytes_per_second = 2e3 * attribute(cudaDevAttrMemoryClockRate, device) *
                                  attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8;
  check(cudaDriverGetVersion(&facts.driver_version), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&facts.runtime_version), "cudaRuntimeGetVersion");
  return facts;
}

std::byte* allocate(int device, std::int64_t bytes) {
  use(device);
  void* memory = nullptr;
  const cudaError_t status =
      cudaMalloc(&memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free_bytes = 0;
    std::size_t all_bytes = 0;
    cudaMemGetInfo(&free_bytes, &all_bytes);
    throw SystemError("device {} has no {} bytes for an allocation: {} are free", device, bytes,
                      free_bytes);
  }
  check(status, "cudaMalloc");
  return static_cast<std::byte*>(memory);
}

void give_back(int device, std::byte* memory) noexcept {
  cudaSetDevice(device);
  cudaFree(memory);
}

std::byte* allocate_pinned(std::int64_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)),
                      cudaHostAllocPortable),
        "cudaHostAlloc");
  return static_cast<std::byte*>(memory);
}

void give_back_pinned(std::byte* memory) noexcept { cudaFreeHost(memory); }

void register_host(std::span<std::byte> memory) {
  check(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable),
        "cudaHostRegister");
}

void unregister_host(std::span<std::byte> memory) noexcept { cudaHostUnregister(memory.data()); }

Queue make_queue(int device, int priority) {
  use(device);
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     std::clamp(priority, highest, lowest)),
        "cudaStreamCreateWithPriority");
  return {reinterpret_cast<std::uintptr_t>(stream)};
}

void give_back(Queue queue) noexcept { cudaStreamDestroy(stream_of(queue)); }

Mark make_mark(int device, bool timed) {
  use(device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
        "cudaEventCreateWithFlags");
  return {reinterpret_cast<std::uintptr_t>(event)};
}

void give_back(Mark mark) noexcept { cudaEventDestroy(event_of(mark)); }

void record(Queue queue, Mark mark) {
  check(cudaEventRecord(event_of(mark), stream_of(queue)), "cudaEventRecord");
}

void wait(Queue queue, Mark mark) {
  check(cudaStreamWaitEvent(stream_of(queue), event_of(mark), 0), "cudaStreamWaitEvent");
}

bool passed(Mark mark) {
  const cudaError_t status = cudaEventQuery(event_of(mark));
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  return true;
}

void wait_host(Mark mark) { check(cudaEventSynchronize(event_of(mark)), "cudaEventSynchronize"); }
void wait_host(Queue queue) {
  check(cudaStreamSynchronize(stream_of(queue)), "cudaStreamSynchronize");
}

float milliseconds(Mark from, Mark to) {
  float elapsed = 0.0F;
  check(cudaEventElapsedTime(&elapsed, event_of(from), event_of(to)), "cudaEventElapsedTime");
  return elapsed;
}

std::string last_error(int device) {
  use(device);
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? std::string() : std::string(cudaGetErrorString(status));
}

void copy(Queue queue, void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                        stream_of(queue)),
        "cudaMemcpyAsync");
}

void copy_rows(Queue queue, void* to, std::int64_t to_pitch, const void* from,
               std::int64_t from_pitch, std::int64_t bytes, std::int64_t rows) {
  if (bytes == 0 || rows == 0) return;
  check(cudaMemcpy2DAsync(to, static_cast<std::size_t>(to_pitch), from,
                          static_cast<std::size_t>(from_pitch), static_cast<std::size_t>(bytes),
                          static_cast<std::size_t>(rows), cudaMemcpyDefault, stream_of(queue)),
        "cudaMemcpy2DAsync");
}

void set_bytes(Queue queue, void* to, int value, std::int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(to, value, static_cast<std::size_t>(bytes), stream_of(queue)),
        "cudaMemsetAsync");
}

void launch(Queue queue, const Kernel& kernel, Grid grid, BlockShape shape, const void* params,
            std::size_t /*params_bytes*/) {
  allow_shared(kernel, shape.shared_bytes);
  void* arguments[] = {const_cast<void*>(params)};
  const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                    static_cast<unsigned>(grid.z));
  check(cudaLaunchKernel(kernel.entry, blocks, dim3(static_cast<unsigned>(shape.threads)),
                         arguments, static_cast<std::size_t>(shape.shared_bytes), stream_of(queue)),
        kernel.name);
}

void begin_capture(Queue queue) {
  check(cudaStreamBeginCapture(stream_of(queue), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
}

Graph end_capture(Queue queue) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream_of(queue), &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
  return {reinterpret_cast<std::uintptr_t>(executable)};
}

void launch(Queue queue, Graph graph) {
  check(cudaGraphLaunch(graph_of(graph), stream_of(queue)), "cudaGraphLaunch");
}

void give_back(Graph graph) noexcept { cudaGraphExecDestroy(graph_of(graph)); }

}  // namespace phalanx::cuda

#endif  // defined(PHALANX_CUDA_TOOLKIT)
