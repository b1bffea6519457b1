#pragma once
// Work of the emulated libraries in the emulated driver's queues.

#include <functional>
#include <string>

#include "phalanx/cuda/driver.h"

namespace phalanx::cuda {

void enqueue_work(Queue queue, std::string name, std::function<void()> work);

}  // namespace phalanx::cuda
