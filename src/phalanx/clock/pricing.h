#pragma once
// The seconds of what a rank does on a machine: its trace on the planning backend, event by event.

#include <functional>
#include <map>
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

class Pricing {
 public:
  // The stage of a rank of the world: its place in its pipeline.
  using PipelineRank = std::function<int(int rank)>;
  // Of a transfer of a rank of the world to or from a file: the seconds of its node's disk, with
  // those of the ranks of the node that do the same at the same time.
  using DiskSeconds = std::function<double(int rank, const TransferBegun& transfer)>;

  // The machine must outlive this.
  Pricing(const Machine& machine, PipelineRank pipeline_rank)
      : machine_(machine), pipeline_rank_(std::move(pipeline_rank)) {}

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
  DiskSeconds disk_seconds_;
  std::map<std::pair<std::string, std::set<int>>, int> numbers_;
  Meetings meetings_;
};

// Seconds of an op: a product or attention by its shape, anything else by what it moves.
double op_seconds(const DeviceDescription& device, const OpCost& cost);

}  // namespace phalanx
