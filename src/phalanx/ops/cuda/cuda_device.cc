#include "phalanx/ops/cuda/cuda_device.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <optional>

#include "phalanx/ops/cuda/cuda_backend.h"
#include "phalanx/ops/fault.h"

namespace phalanx::cuda {
namespace {

constexpr std::int64_t kUploadBytes = std::int64_t{4} << 20;
// Messages and copies go first: others wait for them.
constexpr int kComputePriority = 0;
constexpr int kOtherPriority = -1;
// Of ops::kNoFault.
constexpr int kNoFaultByte = 0xff;

}  // namespace

CudaSizes sizes_of(int device) { return {.product_workspace_bytes = Lt(device).workspace_bytes()}; }

std::string products_of(int device) {
  const Facts its = facts(device);
  return fmt::format("cuda-sm{}{}-lt{}", its.major, its.minor, Lt(device).version());
}

Event EventRing::record(Queue queue) {
  if (static_cast<int>(places_.size()) <= next_) {
    places_.push_back({std::make_unique<OwnMark>(device_, timed_), 0});
  }
  Place& place = places_[static_cast<std::size_t>(next_)];
  cuda::record(queue, **place.mark);
  const Event event{first_ + next_, ++place.generation};
  next_ = (next_ + 1) % size_;
  return event;
}

Mark EventRing::mark_of(Event event) const {
  const int number = event.slot - first_;
  PHALANX_CHECK(number >= 0 && number < static_cast<int>(places_.size()),
                "event {} of {} was never recorded", event.slot, places_.size());
  const Place& place = places_[static_cast<std::size_t>(number)];
  PHALANX_CHECK(place.generation == event.generation,
                "event {} is lost: {} others were recorded since", event.slot,
                (place.generation - event.generation) * static_cast<std::uint64_t>(size_));
  return **place.mark;
}

CudaDevice::CudaDevice(int number)
    : number_(number),
      sizes_(sizes_of(number)),
      uploads_(number, kUploadBytes),
      reads_(std::make_shared<ReadBlocks>(number)),
      events_(number, 0, kEvents, false),
      timed_events_(number, kEvents, kTimedEvents, true) {
  try {
    for (int kind = 0; kind < kStreamKinds; ++kind) {
      const bool compute = kind == static_cast<int>(StreamKind::kCompute);
      QueueState& state = queues_[static_cast<std::size_t>(kind)];
      state.queue = make_queue(number, compute ? kComputePriority : kOtherPriority);
    }
    faults_ = allocate(number, sizeof(ops::FaultWords));
    const Queue any = queues_.front().queue;
    set_bytes(any, faults_, kNoFaultByte, sizeof(ops::FaultWords));
    wait_host(any);
  } catch (...) {
    close();
    throw;
  }
}

CudaDevice::~CudaDevice() { close(); }

void CudaDevice::close() noexcept {
  for (const QueueState& state : queues_) {
    if (state.queue.id == 0) continue;
    try {
      wait_host(state.queue);
    } catch (const std::exception&) {
      // The device is broken; who asked for results has heard of it.
    }
  }
  if (faults_ != nullptr) give_back(number_, faults_);
  for (const QueueState& state : queues_) {
    if (state.queue.id != 0) give_back(state.queue);
  }
}

LaterFaults CudaDevice::faults_later(phalanx::Queue queue) {
  const Queue at = this->queue(queue);
  auto bytes = std::make_shared<ReadBack>(reads_->read_later(at, faults_, sizeof(ops::FaultWords)));
  return LaterFaults([this, at, bytes] {
    ops::FaultWords words;
    std::memcpy(words.data(), bytes->wait().data(), sizeof(words));
    const std::optional<ops::Fault> fault = ops::fault_in(words);
    if (!fault) return;
    set_bytes(at, faults_, kNoFaultByte, sizeof(words));
    ops::fail(*fault);
  });
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
  context.faults = reinterpret_cast<std::uint64_t*>(faults_);
  return context;
}

}  // namespace phalanx::cuda
