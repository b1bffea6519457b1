#include "phalanx/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/test_support.h"
#include "phalanx/comm/comm_error.h"
#include "phalanx/comm/local/local_world.h"
#include "phalanx/comm/meta/meta_communicator.h"
#include "phalanx/comm/split_groups.h"
#include "phalanx/comm/transport_test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using transports::Rank;
using transports::read_values;
using enum PointToPoint::Direction;

class MetaCommunicatorTest : public testing::Test {
 protected:
  MetaCommunicatorTest() : world_(make_meta_world(1, 4)), rank_(*world_, 1 << 16) {}

  Tensor tensor(std::int64_t count, DType dtype = DType::kF32) { return rank_.empty(dtype, count); }
  Context& context() { return rank_.context; }
  Communicator& world() { return *world_; }
  std::vector<Message> messages() const { return rank_.recorder.messages(); }

  template <typename Call>
  static void expect_check(const Call& call, const std::string& text) {
    EXPECT_THAT(error_of<InternalError>([&] { call(); }), HasSubstr(text));
  }

 private:
  std::unique_ptr<Communicator> world_;
  Rank rank_;
};

TEST_F(MetaCommunicatorTest, KnowsTheSizesOfItsGroups) {
  const auto sizes = std::make_shared<GroupSizes>();
  const auto everyone = make_meta_world(1, 6, sizes);
  everyone->split(std::vector<std::vector<int>>{{0, 1, 2}, {3, 4, 5}}, "dp")
      ->split(std::vector<std::vector<int>>{{0, 1}, {2}}, "shard");
  everyone->split(std::vector<std::vector<int>>{{4, 5}}, "others");
  EXPECT_EQ(*sizes, (GroupSizes{{"world", 6}, {"dp", 3}, {"shard", 2}}));
}

TEST_F(MetaCommunicatorTest, RecordsWhatThisRankContributes) {
  EXPECT_TRUE(world().all_reduce(context(), tensor(3), Reduction::kSum).done());
  world().reduce_scatter(context(), tensor(3), tensor(12), Reduction::kMax);
  world().all_gather(context(), tensor(12, DType::kBF16), tensor(3, DType::kBF16));
  world().broadcast(context(), tensor(5), 1);
  world().broadcast(context(), tensor(5), 0);
  world().all_to_all(context(), tensor(8), tensor(8));
  world().all_to_all(context(), tensor(2), std::vector<std::int64_t>{0, 2, 0, 0}, tensor(6),
                     std::vector<std::int64_t>{1, 2, 3, 0});
  world().barrier(context());
  world().send(context(), tensor(7, DType::kF64), 3, 0);
  world().receive(context(), tensor(7), 0, 0);
  const PointToPoint both[] = {{kReceive, 0, 0, tensor(2)}, {kSend, 2, 0, tensor(2)}};
  EXPECT_TRUE(world().exchange(context(), both).done());
  EXPECT_THAT(
      messages(),
      ElementsAre(Message{"world", "all_reduce", 12}, Message{"world", "reduce_scatter", 48},
                  Message{"world", "all_gather", 6}, Message{"world", "broadcast", 20},
                  Message{"world", "broadcast", 0}, Message{"world", "all_to_all", 32},
                  Message{"world", "all_to_all", 24}, Message{"world", "barrier", 0},
                  Message{"world", "send", 56}, Message{"world", "receive", 0},
                  Message{"world", "receive", 0}, Message{"world", "send", 8}));
}

TEST_F(MetaCommunicatorTest, WorksOnPlanningArenas) {
  Arena plan = Arena::planning("plan");
  const Tensor huge = plan.allocate(DType::kF32, {std::int64_t{1} << 40});
  world().all_reduce(context(), huge, Reduction::kSum).wait_host(Work::Clock::now());
  EXPECT_EQ(messages().back().bytes, std::int64_t{1} << 42);
}

TEST_F(MetaCommunicatorTest, SplitsTakeTheGroupOfThisRank) {
  const auto group = world().split(std::vector<std::vector<int>>{{0, 2}, {3, 1}}, "dp");
  EXPECT_EQ(group->name(), "dp");
  EXPECT_EQ(group->rank(), 1);
  EXPECT_EQ(group->size(), 2);
  group->all_reduce(context(), tensor(1), Reduction::kSum);
  EXPECT_THAT(messages(), ElementsAre(Message{"dp", "all_reduce", 4}));
  EXPECT_EQ(world().split(std::vector<std::vector<int>>{{0, 2}}, "pp"), nullptr);
}

TEST_F(MetaCommunicatorTest, ChecksItsOperands) {
  const Tensor matrix = tensor(12).reshape({4, 3});
  const Tensor column = matrix.slice(1, 0, 1);
  Communicator& w = world();
  expect_check([&] { w.all_reduce(context(), {}, Reduction::kSum); },
               "world: all_reduce: no tensor");
  expect_check([&] { w.all_reduce(context(), column, Reduction::kSum); },
               "world: all_reduce: tensor [4, 1] is not contiguous");
  expect_check([&] { w.reduce_scatter(context(), tensor(3), tensor(13), Reduction::kSum); },
               "input [13] is not 4 times output [3]");
  expect_check([&] { w.all_gather(context(), tensor(12), tensor(4)); },
               "output [12] is not 4 times input [4]");
  expect_check([&] { w.all_gather(context(), tensor(12, DType::kI32), tensor(3)); },
               "all_gather: output is i32, input f32");
  expect_check([&] { w.all_gather(context(), matrix, matrix.slice(0, 2, 1)); },
               "overlap elsewhere than in this rank's part");
  expect_check([&] { w.broadcast(context(), tensor(1), 4); }, "broadcast: root 4 in a group of 4");
  expect_check([&] { w.all_to_all(context(), tensor(6), tensor(6)); }, "4 equal parts");
  expect_check([&] { w.all_to_all(context(), matrix, matrix); }, "output and input overlap");
  const std::vector<std::int64_t> three = {1, 1, 1}, negative = {-1, 1, 1, 1}, four = {1, 1, 1, 1};
  expect_check([&] { w.all_to_all(context(), tensor(3), three, tensor(4), four); },
               "3 counts `from` in a group of 4");
  expect_check([&] { w.all_to_all(context(), tensor(2), negative, tensor(4), four); },
               "negative count in `from`");
  expect_check([&] { w.all_to_all(context(), tensor(4), four, tensor(5), four); },
               "the counts `to` add up to 4, not to all of [5]");
  expect_check([&] { w.send(context(), tensor(1), -1, 0); }, "send: peer -1 in a group of 4");
  expect_check([&] { w.receive(context(), column, 0, 0); }, "receive: tensor [4, 1]");
  expect_check([&] { w.send(context(), tensor(1), 1, 0); },
               "rank 1 sends itself 1 messages and receives 0");
  EXPECT_TRUE(messages().empty());
  w.all_gather(context(), matrix, matrix.slice(0, 1, 1));
  EXPECT_EQ(messages().size(), 1);
}

TEST(LonelyCommunicatorTest, CopiesAndRecordsNothing) {
  for (const bool meta : {false, true}) {
    const auto world = meta ? make_meta_world(0, 1) : std::move(make_local_world(1)[0]);
    Rank rank(*world, 1 << 16);
    Context& context = rank.context;
    const Tensor a = rank.tensor(DType::kF32, {1, 2, 3});
    const auto zeros = [&] { return rank.empty(DType::kF32, 3); };
    const Tensor scattered = zeros(), gathered = zeros(), swapped = zeros(), received = zeros();
    world->all_reduce(context, a, Reduction::kSum);
    world->reduce_scatter(context, scattered, a, Reduction::kSum);
    world->all_gather(context, gathered.reshape({3, 1}), a);
    world->all_gather(context, a, a);
    world->broadcast(context, a, 0);
    world->all_to_all(context, swapped, a);
    world->barrier(context);
    const PointToPoint messages[] = {{kReceive, 0, 4, received}, {kSend, 0, 4, a}};
    EXPECT_TRUE(world->exchange(context, messages).done());
    for (const Tensor& copy : {a, scattered, gathered, swapped, received}) {
      EXPECT_THAT(read_values(copy), ElementsAre(1, 2, 3));
    }
    EXPECT_TRUE(rank.recorder.messages().empty());
    const PointToPoint wrong[] = {{kReceive, 0, 5, received}, {kSend, 0, 4, a}};
    EXPECT_THROW(world->exchange(context, wrong), CommError);
  }
}

// The text of many groups is short, yet no difference is overlooked.
TEST(GroupsTest, TheCallOfASplitTellsAllGroupsApart) {
  const auto calls_of = [](int ranks) {
    std::vector<std::vector<int>> groups;
    for (int rank = 0; rank < ranks; rank += 2) groups.push_back({rank, rank + 1});
    std::vector<Call> calls = {split_call("tp", groups), split_call("dp", groups)};
    std::swap(groups.back()[0], groups.back()[1]);
    calls.push_back(split_call("tp", groups));
    groups.pop_back();
    calls.push_back(split_call("tp", groups));
    groups.back().push_back(ranks - 1);
    groups.push_back({ranks - 2});
    calls.push_back(split_call("tp", groups));
    return calls;
  };
  for (const int ranks : {4, 10000}) {
    const std::vector<Call> calls = calls_of(ranks);
    EXPECT_EQ(calls[0], calls_of(ranks)[0]);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      EXPECT_LE(calls[i].split.size(), 400);
      for (std::size_t j = 0; j < i; ++j) {
        EXPECT_NE(calls[i], calls[j]);
        EXPECT_NE(describe(calls[i], 0), describe(calls[j], 0));
        EXPECT_NE(calls[i].split_digest, calls[j].split_digest);
      }
    }
  }
  EXPECT_EQ(describe(calls_of(4)[0], 0), "split(tp: [0 1] [2 3])");
  EXPECT_THAT(describe(calls_of(10000)[0], 0),
              testing::MatchesRegex("split\\(tp: \\[0 1\\] .* \\.\\.\\., 5000 groups with the "
                                    "digest [0-9a-f]+\\)"));
}

TEST(GroupsTest, FindsTheGroupAndRefusesWhatIsNone) {
  const std::vector<std::vector<int>> groups = {{0, 3}, {2}};
  EXPECT_EQ(find_membership(groups, 3, 4)->group, 0);
  EXPECT_EQ(find_membership(groups, 3, 4)->rank, 1);
  EXPECT_EQ(find_membership(groups, 2, 4)->group, 1);
  EXPECT_FALSE(find_membership(groups, 1, 4));
  for (const auto& wrong :
       {std::vector<std::vector<int>>{{0, 1}, {1}}, std::vector<std::vector<int>>{{0, 4}},
        std::vector<std::vector<int>>{{-1}}, std::vector<std::vector<int>>{{0}, {}}}) {
    EXPECT_THROW(find_membership(wrong, 0, 4), InternalError);
  }
}

}  // namespace
}  // namespace phalanx
