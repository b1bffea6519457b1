#pragma once
// Makes programs of a schedule: adds the messages between passes, in an order that cannot deadlock.
// The schedule is replayed once in simulated time. Whenever a pass makes something for another
// rank, a send is appended to its rank's list and, at the same moment, the receive to the other's.
// So all lists are projections of one total order, in which every message could be a rendezvous.
//
// A send and its await have the chunk that made the payload, a receive the chunk that reads it. All
// three have the stage that made it as `source_stage`; in a bidirectional placement the stages of
// the copy up are numbered from `stages` on. (payload, source_stage, microbatch) names one message.

#include <vector>

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

// A program for each rank of a verified schedule. A send is awaited two passes later, or at the end
// of the program, so that the message moves while these passes run. An update comes after the
// messages and reductions of the passes before it.
std::vector<Program> lower(const Schedule& schedule, const Costs& costs = {});

// Programs as they are often written by hand: a receive just before the pass that reads it, a send
// just after the pass that made it. Many schedules deadlock with these. For tests and teaching.
std::vector<Program> lower_at_consumer(const Schedule& schedule);

}  // namespace phalanx
