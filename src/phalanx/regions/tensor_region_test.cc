#include "phalanx/regions/tensor_region.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx {
namespace {

using Values = std::vector<double>;

const Shape kInside{4, 3, 2};  // four positions

// One rank of a region, with a tensor that has its rows.
struct RegionRank {
  RegionRank(Communicator* group, bool sequence)
      : region({.rank = group == nullptr ? 0 : group->rank(),
                .size = group == nullptr ? 1 : group->size(),
                .sequence = sequence},
               group) {}

  void set(const std::function<double(std::int64_t)>& value) const {
    for (std::int64_t i = 0; i < inside.count(); ++i) {
      inside.span<double>()[static_cast<std::size_t>(i)] = value(i);
    }
  }
  Values all() const { return ref::read(inside).values; }
  Values own() const { return ref::read(region.own(inside)).values; }

  std::unique_ptr<Backend> backend = make_ref_backend();
  Arena memory{"memory", 1 << 16};
  Arena workspace{"workspace", 1 << 16};
  Recorder recorder;
  Context context{.backend = *backend, .workspace = workspace, .queue = {}, .recorder = &recorder};
  TensorRegion region;
  Tensor inside = memory.allocate(DType::kF64, kInside);
};

Values whole() {
  Values values(static_cast<std::size_t>(kInside.count()));
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

Values rows_of(const Values& values, int rank, int size) {
  const auto part = std::ssize(values) / size;
  return {values.begin() + rank * part, values.begin() + (rank + 1) * part};
}

TEST(TensorRegion, OfOneRankDoesNothing) {
  EXPECT_FALSE(TensorRegion().is_parallel());
  RegionRank rank(nullptr, false);
  EXPECT_FALSE(rank.region.is_parallel());
  EXPECT_FALSE(rank.region.overlaps());
  rank.set([](std::int64_t i) { return static_cast<double>(i); });
  rank.region.enter(rank.context, rank.inside).wait({});
  rank.region.leave(rank.context, rank.inside).wait({});
  EXPECT_EQ(rank.all(), whole());
  EXPECT_EQ(rank.own(), whole());
  EXPECT_TRUE(rank.recorder.messages().empty());
  EXPECT_THROW(rank.region.group(), InternalError);
}

TEST(TensorRegion, RowsThatRanksCannotShareAreAnError) {
  run_local_ranks(2, {}, [&](Communicator& group) {
    RegionRank rank(&group, true);
    EXPECT_THROW(rank.region.own(rank.inside.slice(0, 0, 3)), InternalError);
    EXPECT_THROW(rank.region.leave(rank.context, rank.inside.slice(0, 0, 3)), InternalError);
    EXPECT_THROW(rank.region.enter(rank.context, rank.inside.slice(0, 0, 1)), InternalError);
  });
}

TEST(TensorRegion, WholeStream) {
  for (const int size : {2, 4}) {
    run_local_ranks(size, {}, [&](Communicator& group) {
      RegionRank rank(&group, false);
      rank.set([](std::int64_t i) { return static_cast<double>(i); });
      rank.region.enter(rank.context, rank.inside).wait({});
      EXPECT_TRUE(rank.recorder.messages().empty());
      EXPECT_EQ(rank.own(), whole());
      rank.set([&](std::int64_t i) { return static_cast<double>(i * (group.rank() + 1)); });
      rank.region.leave(rank.context, rank.inside).wait({});
      Values sum = whole();
      for (double& value : sum) value *= size * (size + 1) / 2;
      EXPECT_EQ(rank.own(), sum);
      EXPECT_EQ(rank.recorder.messages(),
                (std::vector<Message>{{group.name(), "all_reduce", kInside.count() * 8}}));
    });
  }
}

TEST(TensorRegion, StreamCutAlongTheSequence) {
  for (const int size : {2, 4}) {
    run_local_ranks(size, {}, [&](Communicator& group) {
      RegionRank rank(&group, true);
      EXPECT_EQ(rank.region.layout().sequence_shards(), size);
      EXPECT_EQ(rank.region.own(rank.inside).shape, (Shape{4 / size, 3, 2}));
      // Each brings its rows alone.
      const Tensor own = rank.region.own(rank.inside);
      rank.set([](std::int64_t) { return -1.0; });
      const Values mine = rows_of(whole(), group.rank(), size);
      std::ranges::copy(mine, own.span<double>().begin());
      rank.region.enter(rank.context, rank.inside).wait({});
      EXPECT_EQ(rank.all(), whole());
      rank.set([&](std::int64_t i) { return static_cast<double>(i * (group.rank() + 1)); });
      rank.region.leave(rank.context, rank.inside).wait({});
      Values sum = mine;
      for (double& value : sum) value *= size * (size + 1) / 2;
      EXPECT_EQ(rank.own(), sum);
      const auto& messages = rank.recorder.messages();
      ASSERT_EQ(messages.size(), 2U);
      EXPECT_EQ(messages[0].op, "all_gather");
      EXPECT_EQ(messages[1].op, "reduce_scatter");
    });
  }
}

// A stream that all ranks hold moves in shares, and is gathered in its place.
TEST(TensorRegion, SharesOfAWholeStream) {
  for (const int size : {2, 4}) {
    run_local_ranks(size, {}, [&](Communicator& group) {
      RegionRank rank(&group, false);
      EXPECT_TRUE(rank.region.has_shares(kInside.count()));
      EXPECT_FALSE(rank.region.has_shares(kInside.count() + 1));
      EXPECT_THROW(rank.region.share(rank.inside.slice(0, 0, 1).slice(1, 0, 1).slice(2, 0, 1)),
                   InternalError);
      const Tensor share = rank.region.share(rank.inside);
      EXPECT_EQ(share.shape, Shape{kInside.count() / size});
      rank.set([](std::int64_t) { return -1.0; });
      std::ranges::copy(rows_of(whole(), group.rank(), size), share.span<double>().begin());
      rank.region.gather_shares(rank.context, rank.inside).wait({});
      EXPECT_EQ(rank.all(), whole());
      EXPECT_EQ(rank.recorder.messages(),
                (std::vector<Message>{{group.name(), "all_gather", kInside.count() * 8 / size}}));
    });
  }
}

// One rank has the whole, and a stream that is cut is a share already.
TEST(TensorRegion, HasNoSharesOfAnythingElse) {
  EXPECT_FALSE(TensorRegion().has_shares(kInside.count()));
  run_local_ranks(2, {}, [](Communicator& group) {
    EXPECT_FALSE(RegionRank(&group, true).region.has_shares(kInside.count()));
  });
}

// Overlap is used where there are messages and it is not switched off.
TEST(TensorRegion, Overlaps) {
  run_local_ranks(2, {}, [](Communicator& group) {
    for (const bool async : {false, true}) {
      const TensorRegion region({.rank = group.rank(), .size = 2, .async_reduce = async}, &group);
      EXPECT_EQ(region.overlaps(), async);
    }
  });
}

TEST(TensorRegion, FitsItsGroup) {
  EXPECT_THROW(TensorRegion({.rank = 0, .size = 2}, nullptr), InternalError);
  EXPECT_THROW(TensorRegion({.rank = 0, .size = 1, .sequence = true}, nullptr), InternalError);
  const auto world = make_local_world(2);
  EXPECT_THROW(TensorRegion({.rank = 1, .size = 2}, world[0].get()), InternalError);
  EXPECT_THROW(TensorRegion({.rank = 0, .size = 4}, world[0].get()), InternalError);
}

}  // namespace
}  // namespace phalanx
