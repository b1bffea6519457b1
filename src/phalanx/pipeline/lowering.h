#pragma once
// From passes to programs: the messages between them, in an order that cannot deadlock. The
// schedule is replayed once, in simulated time; whenever a pass makes something for another rank, a
// send is appended to its rank's list and at the same moment the receive to the other's. All lists
// are then projections of one total order, in which every message could be a rendezvous.
//
// Of a message: a send and the await of it have the chunk that made the payload, a receive the
// chunk that reads it, and all three the stage that made it as `source_stage`, which in a
// bidirectional placement is `stages` more for the copy up: (payload, source_stage, microbatch)
// names one message.

#include <vector>

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

// A program for each rank. The schedule must have been verified. A send is awaited two passes of
// its rank later, or at the end of the program, so the message may move while these run. An update
// comes behind the messages and reductions of the passes before it.
std::vector<Program> lower(const Schedule& schedule, const Costs& costs = {});

// How programs are often written by hand - a receive just before the pass that reads it, a send
// just behind the pass that made it - which many schedules deadlock with. For tests and for
// teaching.
std::vector<Program> lower_at_consumer(const Schedule& schedule);

}  // namespace phalanx
