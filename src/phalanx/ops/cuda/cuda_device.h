#pragma once
// What the backend has of a device: its queues, events, pinned memory, and the library of products.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "phalanx/cuda/lt.h"
#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/pinned_memory.h"
#include "phalanx/ops/queue.h"

namespace phalanx::cuda {

// So many events may lie between a record and who asks for it.
inline constexpr int kEvents = 4096;
// Of those that keep their time, which benchmarks record.
inline constexpr int kTimedEvents = 64;

// Marks as events: each place is recorded again after `size` others. Places are numbered from
// `first` on.
class EventRing {
 public:
  EventRing(int device, int first, int size, bool timed)
      : device_(device), first_(first), size_(size), timed_(timed) {}

  Event record(Queue queue);
  // InternalError if the event's place has another.
  Mark mark_of(Event event) const;

 private:
  struct Place {
    std::unique_ptr<OwnMark> mark;
    std::uint64_t generation = 0;
  };
  int device_, first_, size_;
  bool timed_;
  int next_ = 0;
  std::vector<Place> places_;
};

class CudaDevice {
 public:
  explicit CudaDevice(int number);
  // Waits for what was enqueued.
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaSizes& sizes() const { return sizes_; }
  Queue queue(phalanx::Queue queue) const;
  // What ops that are enqueued there take; without scratch.
  CudaContext context(phalanx::Queue queue);
  UploadRing& uploads() { return uploads_; }
  ReadBlocks& reads() { return *reads_; }
  EventRing& events() { return events_; }
  EventRing& timed_events() { return timed_events_; }
  Mark mark_of(Event event) const {
    return (event.slot < kEvents ? events_ : timed_events_).mark_of(event);
  }
  // What kernels will have found wrong in data when the queue has come here: an InternalError, and
  // forgotten.
  LaterFaults faults_later(phalanx::Queue queue);

 private:
  struct QueueState {
    Queue queue;
    std::unique_ptr<Lt> lt;
  };
  // Gives back what the constructor took.
  void close() noexcept;

  int number_;
  CudaSizes sizes_;
  std::byte* faults_ = nullptr;  // ops::FaultWords
  std::array<QueueState, kStreamKinds> queues_;
  UploadRing uploads_;
  std::shared_ptr<ReadBlocks> reads_;
  EventRing events_, timed_events_;
};

}  // namespace phalanx::cuda
