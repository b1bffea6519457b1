#include "phalanx/ops/cuda/check/checks.h"
#include "phalanx/ops/cuda/elementwise.h"

namespace phalanx::cuda {
namespace {

using Bytes = std::vector<std::byte>;

// A graph that runs three times: its launches keep their params, and see what memory holds then.
Bytes replay(Workbench& bench) {
  const TypedAddress x = bench.uniform(DType::kF32, 5000, -1, 1);
  const TypedAddress sum = bench.output(DType::kF32, 5000);
  set_bytes(bench.queue(), sum.at, 0, 5000 * 4);
  wait_host(bench.queue());
  double factor = 0.5;
  begin_capture(bench.queue());
  scale(bench.context(), x, x, 5000, factor);
  accumulate(bench.context(), sum, x, 5000);
  const Graph graph = end_capture(bench.queue());
  factor = 2.0;
  for (int i = 0; i < 3; ++i) launch(bench.queue(), graph);
  Bytes bytes = bench.read(sum, 5000);
  give_back(graph);
  return bytes;
}

// Two queues that take turns, ordered by marks alone.
Bytes take_turns(Workbench& bench) {
  const int device = bench.context().device;
  CudaContext other = bench.context();
  other.queue = make_queue(device, -1);
  const Mark there = make_mark(device);
  const Mark back = make_mark(device);
  const TypedAddress x = bench.uniform(DType::kF32, 1 << 16, -1, 1);
  for (int i = 0; i < 20; ++i) {
    scale(bench.context(), x, x, 1 << 16, 0.9375);
    record(bench.queue(), there);
    wait(other.queue, there);
    accumulate(other, x, x, 1 << 16);
    record(other.queue, back);
    wait(bench.queue(), back);
  }
  Bytes bytes = bench.read(x, 1 << 16);
  give_back(there);
  give_back(back);
  give_back(other.queue);
  return bytes;
}

Bytes copy_by_rows(Workbench& bench) {
  const TypedAddress x = bench.uniform(DType::kF32, 100 * 40, -1, 1);
  const TypedAddress y = bench.output(DType::kF32, 100 * 30);
  copy_rows(bench.queue(), y.at, 30 * 4, x.at, 40 * 4, 17 * 4, 100);
  return bench.read(y, 100 * 30);
}

// Memory that was the host's before it was registered.
Bytes copy_registered(Workbench& bench) {
  std::vector<std::byte> memory(1 << 20);
  register_host(memory);
  const TypedAddress x = bench.uniform(DType::kF32, 1 << 18, -1, 1);
  copy(bench.queue(), memory.data(), x.at, 1 << 20);
  const Mark mark = make_mark(bench.context().device);
  record(bench.queue(), mark);
  while (!passed(mark)) {
  }
  unregister_host(memory);
  give_back(mark);
  return memory;
}

}  // namespace

std::vector<ExactCheck> driver_checks() {
  return {{"driver graph", replay},
          {"driver two queues", take_turns},
          {"driver copy by rows", copy_by_rows},
          {"driver registered memory", copy_registered}};
}

}  // namespace phalanx::cuda
