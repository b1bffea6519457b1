#pragma once
// Work of the emulated libraries in the emulated driver's queues.

#include <memory>
#include <string>

#include "phalanx/cuda/driver.h"

namespace phalanx::cuda {

// What an entry of a queue does; once, or as often as a graph is launched. No std::function: copies
// of its code that sanitizers instrument would look at the driver's own memory.
class QueueWork {
 public:
  virtual ~QueueWork() = default;
  virtual void run() = 0;
};

void enqueue_work(Queue queue, std::string name, std::shared_ptr<QueueWork> work);

}  // namespace phalanx::cuda
