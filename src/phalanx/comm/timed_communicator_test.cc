#include "phalanx/comm/timed_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/comm/comm_error.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/comm/transport_test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using transports::Rank;
using transports::read_values;

double waited(const StepTimers& timers) { return timers.seconds(StepTimer::kMessages); }

// Every call is passed on unchanged and recorded once, and its wait is counted.
TEST(TimedCommunicator, CountsWaitsAndNothingElse) {
  run_local_ranks(2, {}, [](Communicator& plain) {
    StepTimers timers;
    const auto world = timed(plain, timers);
    Rank rank(*world, 1 << 16);
    const int peer = 1 - rank.rank();
    auto expect_more = [&, before = waited(timers)]() mutable {
      EXPECT_GT(waited(timers), before);
      before = waited(timers);
    };
    EXPECT_EQ(world->name(), plain.name());

    const Tensor sum = rank.tensor(DType::kF32, {1.0 + rank.rank(), 2});
    const Work work = world->all_reduce(rank.context, sum, Reduction::kSum);
    EXPECT_EQ(waited(timers), 0.0);
    work.wait({});
    expect_more();
    EXPECT_THAT(read_values(sum), ElementsAre(3, 4));

    const Tensor part = rank.empty(DType::kF32, 1);
    world->reduce_scatter(rank.context, part, sum, Reduction::kMax).wait({});
    expect_more();
    EXPECT_THAT(read_values(part), ElementsAre(3 + rank.rank()));
    const Tensor whole = rank.empty(DType::kF32, 2);
    world->all_gather(rank.context, whole, part).wait({});
    expect_more();
    EXPECT_THAT(read_values(whole), ElementsAre(3, 4));
    const Tensor root = rank.tensor(DType::kF32, {5.0 + rank.rank()});
    world->broadcast(rank.context, root, 1).wait({});
    expect_more();
    EXPECT_THAT(read_values(root), ElementsAre(6));
    const Tensor turned = rank.empty(DType::kF32, 2);
    world->all_to_all(rank.context, turned, rank.tensor(DType::kF32, {10.0 * rank.rank(), 1}))
        .wait({});
    expect_more();
    EXPECT_THAT(read_values(turned), rank.rank() == 0 ? ElementsAre(0, 10) : ElementsAre(1, 1));
    const Tensor received = rank.empty(DType::kF32, 1);
    const Work sent = world->send(rank.context, rank.tensor(DType::kF32, {7}), peer, 3);
    world->receive(rank.context, received, peer, 3)
        .wait_host(Work::Clock::now() + std::chrono::minutes(1));
    expect_more();
    sent.wait({});
    EXPECT_THAT(read_values(received), ElementsAre(7));
    world->barrier(rank.context);
    expect_more();

    std::vector<std::string_view> ops;
    for (const Message& message : rank.recorder.messages()) ops.push_back(message.op);
    EXPECT_THAT(ops, ElementsAre("all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                 "all_to_all", "send", "receive", "barrier"));

    const std::vector<std::vector<int>> groups = {{0, 1}};
    const auto group = world->split(groups, "tp");
    EXPECT_EQ(group->name(), "tp");
    group->all_reduce(rank.context, sum, Reduction::kSum).wait({});
    expect_more();
    const std::vector<std::vector<int>> first = {{0}};
    EXPECT_EQ(world->split(first, "alone") == nullptr, rank.rank() == 1);
    { const auto busy = world->busy("reading"); }
    world->barrier(rank.context);
  });
}

TEST(TimedCommunicator, AbortsTheWorld) {
  const auto body = [](Communicator& plain) {
    StepTimers timers;
    const auto world = timed(plain, timers);
    Rank rank(*world, 1 << 16);
    if (rank.rank() == 1) {
      world->abort("it is enough");
      throw IoError("it is enough");
    }
    EXPECT_THROW(world->barrier(rank.context), CommError);
    EXPECT_GT(waited(timers), 0.0);
  };
  EXPECT_THROW(run_local_ranks(2, {}, body), IoError);
}

}  // namespace
}  // namespace phalanx
