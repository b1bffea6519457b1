#include "phalanx/ops/cuda/cuda_device.h"

#include <exception>

namespace phalanx::cuda {
namespace {

constexpr std::int64_t kUploadBytes = std::int64_t{4} << 20;
// Messages and copies go first: others wait for them.
constexpr int kComputePriority = 0;
constexpr int kOtherPriority = -1;

}  // namespace

CudaSizes sizes_of(int device) { return {.product_workspace_bytes = Lt(device).workspace_bytes()}; }

Event EventRing::record(Queue queue) {
  if (static_cast<int>(places_.size()) <= next_) {
    places_.push_back({std::make_unique<OwnMark>(device_), 0});
  }
  Place& place = places_[static_cast<std::size_t>(next_)];
  cuda::record(queue, **place.mark);
  const Event event{next_, ++place.generation};
  next_ = (next_ + 1) % kEvents;
  return event;
}

Mark EventRing::mark_of(Event event) const {
  PHALANX_CHECK(event.slot >= 0 && event.slot < static_cast<int>(places_.size()),
                "event {} of {} was never recorded", event.slot, places_.size());
  const Place& place = places_[static_cast<std::size_t>(event.slot)];
  PHALANX_CHECK(place.generation == event.generation,
                "event {} is lost: {} others were recorded since", event.slot,
                (place.generation - event.generation) * kEvents);
  return **place.mark;
}

CudaDevice::CudaDevice(int number)
    : number_(number),
      sizes_(sizes_of(number)),
      uploads_(number, kUploadBytes),
      reads_(std::make_shared<ReadBlocks>(number)),
      events_(number) {
  for (int kind = 0; kind < kStreamKinds; ++kind) {
    const bool compute = kind == static_cast<int>(StreamKind::kCompute);
    QueueState& state = queues_[static_cast<std::size_t>(kind)];
    state.queue = make_queue(number, compute ? kComputePriority : kOtherPriority);
  }
}

CudaDevice::~CudaDevice() {
  for (const QueueState& state : queues_) {
    try {
      wait_host(state.queue);
    } catch (const std::exception&) {
      // The device is broken; who asked for results has heard of it.
    }
  }
  for (const QueueState& state : queues_) give_back(state.queue);
}

Queue CudaDevice::queue(phalanx::Queue queue) const {
  PHALANX_CHECK(queue.id >= 0 && queue.id < kStreamKinds, "queue {} of {}", queue.id, kStreamKinds);
  return queues_[static_cast<std::size_t>(queue.id)].queue;
}

CudaContext CudaDevice::context(phalanx::Queue queue) {
  CudaContext context;
  context.device = number_;
  context.queue = this->queue(queue);
  QueueState& state = queues_[static_cast<std::size_t>(queue.id)];
  // The library has memory of its own for each.
  if (!state.lt) state.lt = std::make_unique<Lt>(number_);
  context.lt = state.lt.get();
  context.uploads = &uploads_;
  return context;
}

}  // namespace phalanx::cuda
