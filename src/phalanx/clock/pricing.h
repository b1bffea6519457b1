#pragma once
// The seconds of what a rank does on a machine: its trace on the planning backend, event by event.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "phalanx/clock/machine.h"
#include "phalanx/clock/program_clock.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx {

// What the messages of a communicator are for, by its name; kData where it is none of a layer's.
TimePart part_of_group(std::string_view name);

// Where a step is not priced as its program stands there, but as other software does it.
struct PricingRules {
  // What layers multiply, in place of their tensors' type. A product with a dimension of so many
  // columns is of the head, and as it is.
  std::optional<ProductType> products = {};
  std::int64_t head_columns = 0;
  // Tensor-parallel traffic is cut into pieces beside products: the share x_tp is exposed.
  bool hides_tensor_in_part = false;
  // The sender of a message between ranks of the pipeline waits until it is there.
  bool sends_wait = false;
  double attention = 1.0;              // fused attention takes so many times as long
  std::optional<double> host_op = {};  // seconds, in place of the device's
};

class Pricing {
 public:
  // The stage of a rank of the world: its place in its pipeline.
  using PipelineRank = std::function<int(int rank)>;
  // Of a transfer of a rank of the world to or from a file: the seconds of its node's disk, with
  // those of the ranks of the node that do the same at the same time.
  using DiskSeconds = std::function<double(int rank, const TransferBegun& transfer)>;

  // The machine must outlive this.
  Pricing(const Machine& machine, PipelineRank pipeline_rank, const PricingRules& rules = {})
      : machine_(machine), pipeline_rank_(std::move(pipeline_rank)), rules_(rules) {}

  // Without, transfers are left out.
  void price_transfers(DiskSeconds disk_seconds) { disk_seconds_ = std::move(disk_seconds); }

  // Of an action of this kind on a rank of the world. Messages between ranks of the pipeline are
  // left out but for the seconds of a send: the clock knows from the actions when they begin and
  // are waited for.
  ClockAction priced(int rank, std::span<const TraceEvent> events, ActionKind kind);

  // The groups of ranks of the pipeline that the events so far named.
  const Meetings& meetings() const { return meetings_; }

 private:
  ClockEvent compute(const OpCost& cost, ActionKind kind) const;
  ClockEvent begin(int rank, const MessageBegun& message);
  FlowCost cost_of(int rank, const MessageBegun& message) const;
  int meeting_of(const MessageGroup& group);

  const Machine& machine_;
  PipelineRank pipeline_rank_;
  PricingRules rules_;
  DiskSeconds disk_seconds_;
  std::map<std::pair<std::string, std::set<int>>, int> numbers_;
  Meetings meetings_;
};

// Of an op that is one. Groups of experts have about equal rows, each a product of its own. `type`,
// where given, is what it multiplies instead of its tensors' type.
std::optional<MatrixProduct> product_of(const OpCost& cost, std::optional<ProductType> type = {});

// The activation function that a product ends with, and writes both its input and its output, or
// that a gradient of inputs begins with: the op that it would be alone, and what that would move.
struct FusedActivation {
  std::string_view op;
  double bytes = 0.0;
};
std::optional<FusedActivation> activation_of(const OpCost& cost);

// Seconds of an op: a product or attention by its shape, anything else by what it moves. Products
// may be of another type than their tensors; those with an activation function take its time, too,
// where the device was measured at it.
double op_seconds(const DeviceDescription& device, const OpCost& cost,
                  std::optional<ProductType> products = {});

}  // namespace phalanx
