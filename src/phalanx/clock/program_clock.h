#pragma once
// When the programs of a pipeline's ranks do what: every rank's list of actions, in order, with the
// seconds of each op and message. Every rank of the pipeline stands for those that have the same
// stages: they do the same things at the same times.
//
// A rank computes one op after the other. A message that it begins moves beside its ops, after the
// messages before it on the same channel, and costs the rank time only where it waits for it. A
// message between two ranks of the pipeline starts when its send and its receive have begun, and
// the messages from one to the other follow each other. Messages of different channels that are on
// one link at a time share its rate (flows.h).

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "phalanx/pipeline/action.h"
#include "phalanx/pipeline/simulator.h"

namespace phalanx {

// What the seconds of a rank go into. The exposed traffic is what ranks wait for.
enum class TimePart : std::uint8_t {
  kProducts,
  kAttention,
  kMemory,  // ops that move memory
  kTensor,  // exposed traffic: tensor parallel, context, ...
  kContext,
  kExpert,
  kPipeline,
  kData,
  kBubble,  // waits for passes of other ranks of the pipeline
  kOptimizer,
  kHost,  // ops are enqueued slower than a device computes them
  kDisk,
};
inline constexpr int kTimeParts = 12;
// The channel of transfers to and from files.
inline constexpr int kDiskChannel = static_cast<int>(TimePart::kDisk);
// "products", "attention", "memory", "tp", "cp", "ep", "pp", "dp", "bubble", "optimizer", "host",
// "disk".
std::string_view name_of(TimePart part);

// What a message moves over, and shares with others that are there. Links carry as much in one
// direction as in the other at the same time: a message between two ranks takes one direction of
// each one's link, a collective both.
enum class LinkKind : std::uint8_t {
  kOwn,     // shared with nobody
  kDevice,  // of the rank's device to the others of its node
  kCards,   // the device's share of its node's network cards
  kDisk,    // of the rank's node, with no directions
};

struct FlowCost {
  double seconds = 0.0;  // from its start to its end, if nothing shares its link
  double latency = 0.0;  // the part of it for which it takes nothing of the link
  LinkKind link = LinkKind::kOwn;
};

// A part of an action, in the order of the rank.
struct ClockEvent {
  enum class Kind : std::uint8_t {
    kCompute,  // an op
    kBegin,    // a message of a group, or a transfer to or from a file
    kAwait,    // of the last begin of its token
  };
  Kind kind = Kind::kCompute;
  TimePart part = TimePart::kMemory;
  double seconds = 0.0;  // of an op
  FlowCost cost = {};    // of a begin
  int token = 0;         // of a begin and its await
  int channel = 0;       // of a begin: what moves there moves one after the other
  // Of a begin: the group of ranks of the pipeline that must all have begun it; -1: this rank
  // alone, since its other members do the same at the same time.
  int meeting = -1;
  // Of a begin: the share of its hidden seconds by which it slows down what is computed beside it.
  double slows = 0.0;
};

struct ClockAction {
  std::vector<ClockEvent> events = {};
  FlowCost message = {};      // of a send
  double host_seconds = 0.0;  // that enqueueing takes: the action is not shorter
};

// A rank of the pipeline.
struct ClockRank {
  std::vector<ClockEvent> before = {};     // the program
  std::vector<Action> actions = {};        // the program
  std::vector<ClockAction> distinct = {};  // what distinct actions do,
  std::vector<std::size_t> numbers = {};   // by action: its index there
  int node = 0;                            // ranks of a node share its disk
};

// The meetings of ranks, by number: which ranks of the pipeline take part.
using Meetings = std::vector<std::vector<int>>;

// How a message between ranks of the pipeline starts.
enum class MessageStart : std::uint8_t {
  kRendezvous,  // when both have begun it
  kBuffered,    // when its send begins: the receive is always there in time
};

// A piece of the chain from which the step's length follows: what a rank does or waits for, one
// after the other, while it works at an action.
struct CriticalStep {
  int rank = 0;
  Action action;                           // that the rank works at
  std::optional<TimePart> waits_for = {};  // traffic; nothing: the rank computes
  double seconds = 0.0;                    // along the path
};

struct ClockedStep {
  double seconds = 0.0;  // until the last rank has done
  // Of each rank, by TimePart: what its time until `seconds` goes into.
  std::vector<std::array<double, kTimeParts>> parts;
  Timeline timeline;  // passes only
  // Of each rank: its part of the seconds in which its node's disk moves on after the step.
  std::vector<double> disk_goes_on;
  // From the begin of the step to its end: a chain of work and waits without a gap.
  std::vector<CriticalStep> critical_path;
  // The rank that waits least for others.
  int busiest_rank() const;
};

// InternalError if the programs wait for each other.
ClockedStep clock_programs(const std::vector<ClockRank>& ranks, const Meetings& meetings = {},
                           MessageStart start = MessageStart::kRendezvous);
// Of a step after one like it: what that left for disks to move is before the step's own transfers.
ClockedStep clock_repeated(std::vector<ClockRank> ranks, const Meetings& meetings);

}  // namespace phalanx
