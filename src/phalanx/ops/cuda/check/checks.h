#pragma once
// What the check of a device runs.

#include <functional>
#include <string>
#include <vector>

#include "phalanx/ops/cuda/check/workbench.h"

namespace phalanx::cuda {

// Bytes that a device and the emulated machine must have in common.
struct ExactCheck {
  std::string name;
  std::function<std::vector<std::byte>(Workbench&)> run;
};
std::vector<ExactCheck> member_checks();
std::vector<ExactCheck> kernel_checks();
std::vector<ExactCheck> embedding_checks();
std::vector<ExactCheck> position_checks();
// Queues, marks, graphs, copies by rows.
std::vector<ExactCheck> driver_checks();

// The largest error against numbers computed in double, relative to the largest of them.
struct ApproximateCheck {
  std::string name;
  std::function<double(Workbench&)> error;
  double tolerance = 0.0;
};
std::vector<ApproximateCheck> approximate_checks();
std::vector<ApproximateCheck> loss_checks();
ApproximateCheck rotary_table_check();
std::vector<ApproximateCheck> attention_checks();
std::vector<ApproximateCheck> grouped_checks();
// All results of forward and backward of one causal attention with a window, or without: 0. Of
// `known` rows the operands have a pattern and neither positions nor documents.
std::vector<std::byte> attention_bytes(Workbench& bench, DType type, std::int64_t window,
                                       bool unfused, bool known);

// Something that takes time: the work of one call.
struct Rate {
  std::string name;
  double bytes = 0.0;  // read and written
  double flops = 0.0;  // of products
  std::function<void()> enqueue;
};
// With operands of `bytes` in all, in the order in which they use the workbench, which is cleared
// in between: `measure` is called with each.
void for_rates(Workbench& bench, std::int64_t bytes,
               const std::function<void(const Rate&)>& measure);

}  // namespace phalanx::cuda
