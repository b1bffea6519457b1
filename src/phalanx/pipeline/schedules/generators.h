#pragma once
// The rules by which schedules order the passes of every rank; each is stated in the file of its
// family, and has a line in schedule_table.cc. All of them give the passes alone, with the weight
// versions they read where weights are stale; ConfigError where the rule has no order for the
// numbers that are asked for. Orders are not verified.

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

ActionLists naive_passes(const ScheduleRequest& request, const Placement& placement);
ActionLists gpipe_passes(const ScheduleRequest& request, const Placement& placement);
ActionLists one_forward_one_backward_passes(const ScheduleRequest& request,
                                            const Placement& placement);
ActionLists eager_passes(const ScheduleRequest& request, const Placement& placement);
ActionLists pipedream_passes(const ScheduleRequest& request, const Placement& placement);
ActionLists double_buffered_passes(const ScheduleRequest& request, const Placement& placement);

ActionLists zero_bubble_h1_passes(const ScheduleRequest& request, const Placement& placement);
ActionLists zero_bubble_h2_passes(const ScheduleRequest& request, const Placement& placement);
// Between the two: `ahead` 0 is H1, ranks - 1 is H2; each one more costs the memory of one more
// activation on rank 0.
ActionLists zero_bubble_passes(const ScheduleRequest& request, int ahead);
ActionLists zero_bubble_v_passes(const ScheduleRequest& request, const Placement& placement);

ActionLists interleaved_passes(const ScheduleRequest& request, const Placement& placement);
ActionLists interleaved_zero_bubble_passes(const ScheduleRequest& request,
                                           const Placement& placement);
ActionLists looped_bfs_passes(const ScheduleRequest& request, const Placement& placement);
ActionLists backward_first_passes(const ScheduleRequest& request, const Placement& placement);
ActionLists hanayo_passes(const ScheduleRequest& request, const Placement& placement);

ActionLists chimera_passes(const ScheduleRequest& request, const Placement& placement);
ActionLists dualpipe_passes(const ScheduleRequest& request, const Placement& placement);
ActionLists dualpipe_v_passes(const ScheduleRequest& request, const Placement& placement);

ActionLists auto_passes(const ScheduleRequest& request, const Placement& placement);

}  // namespace phalanx
