#include "phalanx/ops/cuda/cuda_backend.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "phalanx/ops/cuda/cuda_device.h"

namespace phalanx {
namespace cuda {
namespace {

// What the host reads at a time, while the next piece is copied.
constexpr std::int64_t kReadPiece = std::int64_t{1} << 20;

using Note = void (*)() noexcept;

struct Device {
  std::unique_ptr<CudaDevice> body;
  Note note;
};

// What execute() takes for a device: a queue of one.
struct DeviceQueue {
  CudaContext context;
  Note note;
};

DeviceQueue device_on(Device& device, phalanx::Queue queue) {
  return {device.body->context(queue), device.note};
}

template <typename Op>
std::int64_t workspace_bytes_of(const Device& device, const Op& op) {
  return workspace_bytes_of(device.body->sizes(), op);
}

template <typename Op>
void execute(DeviceQueue& queue, const Op& op, const Tensor& scratch) {
  queue.context.scratch = scratch.address();
  queue.context.scratch_bytes = scratch.bytes();
  queue.context.op = ops::number_in<Op>(ops::OpList());
  execute(queue.context, op);
  queue.note();
}

void check_bytes(const char* what, const Tensor& tensor, std::size_t bytes) {
  PHALANX_CHECK(tensor.space == MemorySpace::kDevice, "{}: a tensor that is not on the device",
                what);
  PHALANX_CHECK(tensor.contiguous(), "{}: a strided tensor {}", what, tensor.shape.to_string());
  PHALANX_CHECK(tensor.bytes() == static_cast<std::int64_t>(bytes), "{} of {} bytes, {} are there",
                what, bytes, tensor.bytes());
}

class CudaBackend final : public ops::DispatchTo<Device, ops::OpList> {
 public:
  CudaBackend(int number, Note note) : DispatchTo({std::make_unique<CudaDevice>(number), note}) {}

  MemorySpace space() const override { return MemorySpace::kDevice; }

  void upload(phalanx::Queue queue, const Tensor& destination,
              std::span<const std::byte> source) override {
    check_bytes("an upload", destination, source.size());
    of().uploads().upload(of().queue(queue), destination.address(), source);
  }

  ReadBack read_later(phalanx::Queue queue, const Tensor& source) override {
    check_bytes("a read-back", source, static_cast<std::size_t>(source.bytes()));
    return of().reads().read_later(of().queue(queue), source.address(), source.bytes());
  }

  void read_back(phalanx::Queue queue, const Tensor& source,
                 std::span<std::byte> destination) override {
    check_bytes("a read-back", source, destination.size());
    const std::int64_t all = source.bytes();
    const auto piece = [&](std::int64_t begin) -> std::optional<ReadBack> {
      if (begin >= all) return std::nullopt;
      return of().reads().read_later(of().queue(queue), source.address() + begin,
                                     std::min(kReadPiece, all - begin));
    };
    auto current = piece(0);
    for (std::int64_t begin = 0; current; begin += kReadPiece) {
      auto next = piece(begin + kReadPiece);
      const std::span<const std::byte> bytes = current->wait();
      std::memcpy(destination.data() + begin, bytes.data(), bytes.size());
      device().note();
      current = std::move(next);
    }
  }

  Event record(phalanx::Queue queue) override { return of().events().record(of().queue(queue)); }
  void wait(phalanx::Queue queue, Event event) override {
    cuda::wait(of().queue(queue), of().mark_of(event));
  }
  bool passed(Event event) override { return cuda::passed(of().mark_of(event)); }
  LaterFaults faults_later(phalanx::Queue queue) override { return of().faults_later(queue); }
  void wait_host(Event event) override {
    cuda::wait_host(of().mark_of(event));
    device().note();
  }
  Event record_timed(phalanx::Queue queue) override {
    return of().timed_events().record(of().queue(queue));
  }
  double seconds(Event from, Event to) override {
    return static_cast<double>(milliseconds(of().mark_of(from), of().mark_of(to))) * 1e-3;
  }

 private:
  CudaDevice& of() { return *device().body; }
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Backend> make_cuda_backend(int device, void (*note)() noexcept) {
  return std::make_unique<cuda::CudaBackend>(device, note);
}

}  // namespace phalanx
