#include "phalanx/pipeline/batch_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/test_support.h"

namespace phalanx {
namespace {

// Replays a program: the most microbatches between their first and last passes; checks that no two
// of them are in one slot.
int most_alive(const Program& program, const BatchSlots& slots) {
  std::vector<std::size_t> first(static_cast<std::size_t>(program.microbatches), 0), last = first;
  std::vector<bool> seen(first.size(), false);
  for (std::size_t i = 0; i < program.actions.size(); ++i) {
    if (!is_pass(program.actions[i].kind)) continue;
    const auto m = static_cast<std::size_t>(program.actions[i].microbatch);
    if (!seen[m]) first[m] = i;
    seen[m] = true;
    last[m] = i;
  }
  std::size_t most = 0;
  for (std::size_t i = 0; i < program.actions.size(); ++i) {
    std::size_t alive = 0;
    std::set<int> used;
    for (std::size_t m = 0; m < first.size(); ++m) {
      const auto microbatch = static_cast<int>(m);
      EXPECT_EQ(slots.is_first_pass(i, microbatch), i == first[m]);
      if (i < first[m] || i > last[m]) continue;
      ++alive;
      used.insert(slots.slot(microbatch));
      EXPECT_GE(slots.slot(microbatch), 0);
      EXPECT_LT(slots.slot(microbatch), slots.count());
    }
    EXPECT_EQ(used.size(), alive) << "two microbatches in one slot at action " << i;
    most = std::max(most, alive);
  }
  return static_cast<int>(most);
}

TEST(BatchSlots, OneAfterTheOther) {
  const Program program = program_of("F0.0 B0.0 F1.0 B1.0 reduce.0 step", 1, 2);
  const BatchSlots slots(program);
  EXPECT_EQ(slots.count(), 1);
  EXPECT_TRUE(slots.is_first_pass(0, 0));
  EXPECT_FALSE(slots.is_first_pass(1, 0));
  EXPECT_TRUE(slots.is_first_pass(2, 1));
}

// The weight gradient reads the batch, too; a batch is loaded once for all chunks.
TEST(BatchSlots, LiveUntilTheLastPassOfAnyChunk) {
  const BatchSlots slots(program_of(
      "F0.0 F1.0 F0.1 b0.1 b0.0 F2.0 w0.0 w0.1 F3.0 F1.1 F2.1 F3.1 B1.1 B1.0 B2.1 B2.0 B3.1 B3.0",
      2, 4));
  EXPECT_EQ(slots.slot(0), 0);
  EXPECT_EQ(slots.slot(1), 1);
  EXPECT_EQ(slots.slot(2), 2);  // microbatch 0 still needs its weight gradient
  EXPECT_EQ(slots.slot(3), 0);
  EXPECT_EQ(slots.count(), 3);
}

// In every schedule there are as many slots as microbatches in flight.
TEST(BatchSlots, AreAsFewAsCanBe) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.directions() > 1) continue;
    for (const int ranks : {2, 3, 4}) {
      const Schedule schedule = make_schedule(kind.name, {.ranks = ranks, .microbatches = 12});
      for (const Program& program : lower(schedule)) {
        const BatchSlots slots(program);
        EXPECT_EQ(slots.count(), most_alive(program, slots)) << kind.name;
      }
    }
  }
  const auto one_forward = lower(make_schedule("1f1b", {.ranks = 4, .microbatches = 12}));
  const auto evaluation = lower(forward_only_schedule(Placement::contiguous(4), 12));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(BatchSlots(one_forward[rank]).count(), 4 - static_cast<int>(rank));
    EXPECT_EQ(BatchSlots(evaluation[rank]).count(), 1);
  }
}

// Data is read as a stream: microbatches must be loaded in order.
TEST(BatchSlots, RefuseProgramsThatLoadOutOfOrder) {
  EXPECT_THROW(BatchSlots(program_of("F1.0 F0.0 B1.0 B0.0", 1, 2)), InternalError);
  EXPECT_THROW(BatchSlots(program_of("F0.0 F2.0 F1.0 B0.0 B1.0 B2.0", 1, 3)), InternalError);
  // The order of backward passes is free.
  EXPECT_EQ(BatchSlots(program_of("F0.0 F1.0 B1.0 B0.0", 1, 2)).count(), 2);
}

}  // namespace
}  // namespace phalanx
