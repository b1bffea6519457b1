#pragma once
// The op set and its machines. An op is a struct of operands (ops/<family>.h) and a free function
// of the same name that checks the shapes and makes one virtual call; it is enqueued and returns
// nothing. A backend answers two questions about every op of the list below: how much scratch
// memory it needs, and run it.
//
// To add an op: a struct, a check and a cost in ops/<family>.{h,cc}; its name in PHALANX_OPS;
// `execute` in ref/ and cpu/ (the linker names what is missing); a row in cases/.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "phalanx/ops/activation.h"
#include "phalanx/ops/attention.h"
#include "phalanx/ops/balance.h"
#include "phalanx/ops/cross_entropy.h"
#include "phalanx/ops/dropout.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/ops/embedding.h"
#include "phalanx/ops/grouped_activation.h"
#include "phalanx/ops/grouped_linear.h"
#include "phalanx/ops/linear.h"
#include "phalanx/ops/norm.h"
#include "phalanx/ops/optimizer.h"
#include "phalanx/ops/permute.h"
#include "phalanx/ops/queue.h"
#include "phalanx/ops/random.h"
#include "phalanx/ops/reduce.h"
#include "phalanx/ops/relative_bias.h"
#include "phalanx/ops/rotary.h"
#include "phalanx/ops/router.h"
#include "phalanx/tensor/recorder.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx {

namespace ops {

template <typename... Ops>
struct OpListOf {};

// X(Op) for every op.
// clang-format off
#define PHALANX_OPS(X)                                                              \
  X(LinearForward) X(LinearInputGradient) X(LinearWeightGradient) X(BiasGradient)   \
  X(NormForward) X(NormApply) X(NormBackward)                                       \
  X(BiasActivationForward) X(BiasActivationBackward)                                \
  X(GatedActivationForward) X(GatedActivationBackward) X(TanhForward) X(TanhBackward)\
  X(BiasDropoutResidual) X(DropoutBackward) X(Jitter)                                       \
  X(EmbeddingForward) X(AddPositions) X(EmbeddingGradient)                          \
  X(SparseEmbeddingGradient) X(SparseEmbeddingJoin)                                 \
  X(AttentionForward) X(AttentionDelta) X(AttentionBackward) X(AttentionMerge)      \
  X(UnfusedAttentionForward) X(UnfusedAttentionBackward)                            \
  X(RelativeBiasForward) X(RelativeBiasBackward) X(RotaryTable) X(Rotate)           \
  X(CrossEntropy) X(CrossEntropyStatistics) X(VocabularyParallelCrossEntropy)       \
  X(LabelMask) X(LossSeed) X(LossAccumulate)                                        \
  X(AdamSegments) X(SgdSegments)                                                    \
  X(SquareSumSegments) X(ZeroCountSegments) X(TotalSegments) X(Total) X(GradientFactor)\
  X(Fill) X(Copy) X(Accumulate) X(Normal) X(Uniform) X(Scale)                       \
  X(RouterForward) X(RouterBackward) X(RouterCapacity) X(SinkhornChoice)            \
  X(BalanceStatistics) X(BalanceLoss) X(BalanceGradient) X(ExpertCounts)            \
  X(ExpertBiasUpdate)                                                               \
  X(GroupedLinearForward) X(GroupedLinearInputGradient)                             \
  X(GroupedLinearWeightGradient) X(GroupedBiasGradient) X(GroupedBiasDots)          \
  X(GroupedActivationForward) X(GroupedActivationBackward)                          \
  X(SortPairs) X(PermuteRows) X(UnpermuteRows) X(PairDots) X(GatherElements)
// clang-format on

template <typename None, typename... Ops>
struct OpsBehind {
  using List = OpListOf<Ops...>;
};
#define PHALANX_COMMA_OP(Op) , Op
using OpList = OpsBehind<void PHALANX_OPS(PHALANX_COMMA_OP)>::List;
#undef PHALANX_COMMA_OP

// The number of an op in the list; the compiler refuses an op that is not in it.
template <typename Op, typename... Ops>
consteval std::size_t number_in(OpListOf<Ops...> /*list*/) {
  static_assert((std::is_same_v<Op, Ops> || ...), "the op is not in OpList");
  std::size_t number = 0;
  (void)((std::is_same_v<Op, Ops> || (++number, false)) || ...);
  return number;
}

}  // namespace ops

// All ops go through one virtual function for a question, by number: virtual functions for every op
// and backend take many times longer to compile. `op` is the op of that number.

// How much scratch the kernels of a machine take: what a plan must know of the machine.
class WorkspaceSizes {
 public:
  virtual ~WorkspaceSizes() = default;

  template <typename Op>
  std::int64_t workspace_bytes(const Op& op) const {
    return workspace_bytes_of_op(ops::number_in<Op>(ops::OpList()), &op);
  }
  virtual std::int64_t workspace_bytes_of_op(std::size_t number, const void* op) const = 0;
};

class Backend : public WorkspaceSizes {
 public:
  template <typename Op>
  void run(Queue queue, const Op& op, const Tensor& scratch) {
    run_op(queue, ops::number_in<Op>(ops::OpList()), &op, scratch);
  }

  virtual MemorySpace space() const = 0;
  Queue queue(StreamKind kind) const { return {static_cast<int>(kind)}; }

  // Bytes from the host into a dense tensor, in the order of the queue. The source may change when
  // the call returns.
  virtual void upload(Queue queue, const Tensor& destination,
                      std::span<const std::byte> source) = 0;
  // The only two ways back to the host, of dense tensors. A planning backend answers zeros.
  // In the order of the queue, without waiting for it.
  virtual ReadBack read_later(Queue queue, const Tensor& source) = 0;
  // Waits for the queue: for set-up, saving and tests, not for steps.
  virtual void read_back(Queue queue, const Tensor& source, std::span<std::byte> destination) = 0;

  // The point that a queue has reached when all that is enqueued has run.
  virtual Event record(Queue queue) = 0;
  // What comes in the queue runs after the event.
  virtual void wait(Queue queue, Event event) = 0;
  virtual bool passed(Event event) = 0;
  virtual void wait_host(Event event) = 0;
  // For benchmarks: an event that keeps its time, and the seconds from one to another when both
  // have passed. Far fewer may lie between a record and who asks for it than of other events.
  virtual Event record_timed(Queue /*queue*/) { return event_now(); }
  virtual double seconds(Event from, Event to) { return seconds_of_events(from, to); }

  // What kernels have noted of faults in data (ops/fault.h) when all that is enqueued now has run.
  // Backends on the host throw at once instead.
  virtual LaterFaults faults_later(Queue /*queue*/) { return {}; }
  // The same, waiting for the queue: throws the error that a host throws.
  void throw_faults(Queue queue) { faults_later(queue).throw_any(); }

 private:
  virtual void run_op(Queue queue, std::size_t number, const void* op, const Tensor& scratch) = 0;
};

// Where an op is enqueued.
struct Context {
  Backend& backend;
  Arena& workspace;  // scratch with stack discipline
  Queue queue{};
  Recorder* recorder = nullptr;  // optional
};

namespace ops {

// The common second half of every op function: take the scratch, run, record.
template <typename Op>
void enqueue(Context& context, const Op& op) {
  const WorkspaceScope scope(context.workspace);
  const Tensor scratch =
      context.workspace.allocate(DType::kU8, {context.backend.workspace_bytes(op)});
  if (context.recorder == nullptr) {
    context.backend.run(context.queue, op, scratch);
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  context.backend.run(context.queue, op, scratch);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  context.recorder->record(
      OpRun{.stream = context.queue.id, .cost = cost(op), .seconds = elapsed.count()});
}

// Both are made of free functions that argument-dependent lookup finds beside the type Device:
//   std::int64_t workspace_bytes_of(const Device&, const Op&);
//   void execute(Device&, const Op&, const Tensor& scratch);
// A device with queues has device_on(Device&, Queue), too: what its execute() takes for a device.
template <typename Device, typename... Ops>
std::int64_t workspace_bytes_by_number(OpListOf<Ops...> /*list*/, const Device& device,
                                       std::size_t number, const void* op) {
  using Function = std::int64_t (*)(const Device&, const void*);
  static constexpr Function kFunctions[] = {[](const Device& machine, const void* operands) {
    return workspace_bytes_of(machine, *static_cast<const Ops*>(operands));
  }...};
  return kFunctions[number](device, op);
}

template <typename Device>
class WorkspaceSizesOf final : public WorkspaceSizes {
 public:
  explicit WorkspaceSizesOf(Device device) : device_(std::move(device)) {}

  std::int64_t workspace_bytes_of_op(std::size_t number, const void* op) const override {
    return workspace_bytes_by_number(OpList(), device_, number, op);
  }

 private:
  Device device_;
};

template <typename Device>
Device& device_on(Device& device, Queue /*queue*/) {
  return device;
}

template <typename Device, typename List>
class DispatchTo;
template <typename Device, typename... Ops>
class DispatchTo<Device, OpListOf<Ops...>> : public Backend {
 public:
  std::int64_t workspace_bytes_of_op(std::size_t number, const void* op) const final {
    return workspace_bytes_by_number(OpListOf<Ops...>(), device_, number, op);
  }

 protected:
  explicit DispatchTo(Device device) : device_(std::move(device)) {}

  Device& device() { return device_; }

 private:
  void run_op(Queue queue, std::size_t number, const void* op, const Tensor& scratch) final {
    using DeviceOnQueue = decltype(device_on(std::declval<Device&>(), queue));
    using Function = void (*)(std::remove_reference_t<DeviceOnQueue>&, const void*, const Tensor&);
    static constexpr Function kFunctions[] = {[](std::remove_reference_t<DeviceOnQueue>& device,
                                                 const void* operands, const Tensor& memory) {
      execute(device, *static_cast<const Ops*>(operands), memory);
    }...};
    DeviceOnQueue device = device_on(device_, queue);
    kFunctions[number](device, op, scratch);
  }

  Device device_;
};

}  // namespace ops
}  // namespace phalanx
