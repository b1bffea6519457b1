#include "phalanx/rank/stop_agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/schedule.h"

namespace phalanx {
namespace {

// Runs an evaluation's programs action by action, with rendezvous sends. A rank that comes to a
// microbatch waits until all ranks have come to the one `delay` before it.
class WaitingPipeline {
 public:
  WaitingPipeline(const Placement& placement, int microbatches, int delay)
      : placement_(placement),
        delay_(delay),
        programs_(lower(forward_only_schedule(placement, microbatches))),
        next_(programs_.size()),
        reached_(programs_.size()) {}

  // Whether all ranks come to their ends.
  bool ends() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
        while (next_[rank] < programs_[rank].actions.size() && advance(rank)) moves = true;
      }
    }
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
      if (next_[rank] < programs_[rank].actions.size()) return false;
    }
    return true;
  }

 private:
  using Message = std::pair<int, int>;  // source stage, microbatch

  bool advance(std::size_t rank) {
    const Action& action = programs_[rank].actions[next_[rank]];
    const int stage = placement_.stage(static_cast<int>(rank), action.chunk);
    while (reached_[rank] <= action.microbatch) {
      if (*std::ranges::min_element(reached_) <= reached_[rank] - delay_) return false;
      ++reached_[rank];
    }
    const Message outgoing{stage, action.microbatch};
    const Message incoming{stage - 1, action.microbatch};
    switch (action.kind) {
      case ActionKind::kSend:
        sent_.insert(outgoing);
        break;
      case ActionKind::kAwaitSend:
        if (!expected_.contains(outgoing)) return false;
        break;
      case ActionKind::kReceive:
        expected_.insert(incoming);
        break;
      case ActionKind::kHandOver:
        sent_.insert(outgoing);
        break;
      default:
        if (stage > 0 && !sent_.contains(incoming)) return false;
    }
    ++next_[rank];
    return true;
  }

  const Placement placement_;
  const int delay_;
  std::vector<Program> programs_;
  std::vector<std::size_t> next_;  // action, by rank
  std::vector<int> reached_;       // microbatches, by rank
  std::set<Message> sent_, expected_;
};

// With any placement of the stages and any number of microbatches.
TEST(StopAgreement, NobodyWaitsForever) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int chunks : {1, 2, 3, 4}) {
      for (const int microbatches : {1, 5, 16, 40, 97}) {
        std::vector<Placement> placements = {Placement::looped(ranks, chunks)};
        if (chunks % 2 == 0) placements.push_back(Placement::wave(ranks, chunks));
        if (chunks == 1) placements.push_back(Placement::contiguous(ranks));
        for (const Placement& placement : placements) {
          EXPECT_TRUE(WaitingPipeline(placement, microbatches, StopAgreement::delay(ranks)).ends())
              << name_of(placement.shape()) << " " << ranks << " x " << chunks << ", "
              << microbatches;
        }
      }
    }
  }
  // Without a delay a rank waits for itself.
  EXPECT_FALSE(WaitingPipeline(Placement::contiguous(4), 8, 0).ends());
}

// Three ranks, 12 microbatches; one rank is asked to stop at microbatch `asked_at`.
TEST(StopAgreement, AllHearTheSame) {
  for (const int asked_at : {0, 1, 5, 10, 11, 12}) {
    std::vector<int> left(3), ended(3);
    run_local_ranks(3, {}, [&](Communicator& world) {
      const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
      Arena workspace("workspace", 1 << 12);
      Context context{.backend = *backend, .workspace = workspace};
      const auto rank = static_cast<std::size_t>(world.rank());
      int times = 0;
      const std::function<bool()> stop = [&] { return rank == 1 && times++ >= asked_at; };
      StopAgreement agreement(world, workspace.allocate(DType::kI32, {4}), stop);
      for (int m = 0; m < 12; ++m) {
        // Asking again about one, or about an earlier one, changes nothing.
        const bool given_up = agreement.is_given_up(context, m);
        EXPECT_EQ(agreement.is_given_up(context, m), given_up);
        if (m > 0 && left[rank] == 0) {
          EXPECT_FALSE(agreement.is_given_up(context, m - 1));
        }
        if (given_up) ++left[rank];
      }
      ended[rank] = agreement.end(context) ? 1 : 0;
    });
    // Four microbatches later, or when the program ends.
    EXPECT_EQ(left, std::vector<int>(3, std::max(0, 12 - (asked_at + 4)))) << asked_at;
    EXPECT_EQ(ended, std::vector<int>(3, asked_at < 12 ? 1 : 0)) << asked_at;
  }
}

TEST(StopAgreement, OneRankAsksNobody) {
  run_local_ranks(1, {}, [](Communicator& world) {
    const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
    Arena workspace("workspace", 1 << 12);
    Context context{.backend = *backend, .workspace = workspace};
    int times = 0;
    const std::function<bool()> stop = [&] { return times++ == 3; };
    StopAgreement agreement(world, {}, stop);
    for (int m = 0; m < 8; ++m) EXPECT_EQ(agreement.is_given_up(context, m), m >= 3);
    EXPECT_TRUE(agreement.end(context));
  });
}

}  // namespace
}  // namespace phalanx
