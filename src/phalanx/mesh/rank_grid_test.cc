#include "phalanx/mesh/rank_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// `count` groups, the g-th of which is `first` with `step` x g added to every member.
RankGroups shifted(const std::vector<int>& first, int step, int count) {
  RankGroups groups;
  for (int g = 0; g < count; ++g) {
    groups.push_back(first);
    for (int& rank : groups.back()) rank += step * g;
  }
  return groups;
}

RankGroups operator+(RankGroups a, const RankGroups& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(RankGrid, SixteenRanks) {
  const RankGrid grid({.tensor = 2, .data = 2, .pipeline = 4});
  EXPECT_EQ(grid.world_size(), 16);
  EXPECT_EQ(grid.order(), "tp-cp-ep-dp-pp");
  EXPECT_EQ(grid.groups("tp"), shifted({0, 1}, 2, 8));
  EXPECT_EQ(grid.groups("dp"),
            (RankGroups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(grid.groups("pp"),
            (RankGroups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
  EXPECT_EQ(grid.groups("tp-pp"),
            (RankGroups{{0, 1, 4, 5, 8, 9, 12, 13}, {2, 3, 6, 7, 10, 11, 14, 15}}));
  EXPECT_EQ(grid.groups("tp-dp"), shifted({0, 1, 2, 3}, 4, 4));
  EXPECT_EQ(grid.embedding_groups(), (RankGroups{{0, 12}, {1, 13}, {2, 14}, {3, 15}}));
  EXPECT_EQ(grid.position_embedding_groups(), (RankGroups{{0}, {1}, {2}, {3}}));
}

TEST(RankGrid, SixteenRanksDataOutermost) {
  const RankGrid grid({.tensor = 2, .data = 2, .pipeline = 4}, "tp-cp-ep-pp-dp");
  EXPECT_EQ(grid.groups("tp"), shifted({0, 1}, 2, 8));
  EXPECT_EQ(grid.groups("dp"), shifted({0, 8}, 1, 8));
  EXPECT_EQ(grid.groups("pp"),
            (RankGroups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(grid.groups("tp-pp"), shifted({0, 1, 2, 3, 4, 5, 6, 7}, 8, 2));
  const RankGrid shorter({.tensor = 2, .data = 2, .pipeline = 4}, "tp-pp-dp");
  EXPECT_EQ(shorter.order(), "tp-pp-dp-cp-ep");
  EXPECT_EQ(shorter.groups("dp"), grid.groups("dp"));
}

TEST(RankGrid, SixteenRanksWithContext) {
  const RankGrid grid({.tensor = 2, .context = 2, .data = 2, .pipeline = 2});
  EXPECT_EQ(grid.groups("cp"),
            (RankGroups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(grid.groups("dp"), shifted({0, 4}, 1, 4) + shifted({8, 12}, 1, 4));
  EXPECT_EQ(grid.groups("dp-cp"),
            (RankGroups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(grid.groups("pp"), shifted({0, 8}, 1, 8));
  EXPECT_EQ(grid.groups("tp-pp"), shifted({0, 1, 8, 9}, 2, 4));
  EXPECT_EQ(grid.groups("tp-cp"), shifted({0, 1, 2, 3}, 4, 4));
}

TEST(RankGrid, SixteenRanksOfExperts) {
  const RankGrid grid({.expert = 4, .data = 2, .pipeline = 2});
  EXPECT_EQ(grid.groups("ep"), shifted({0, 1, 2, 3}, 4, 4));
  EXPECT_EQ(grid.groups("dp"), shifted({0, 4}, 1, 4) + shifted({8, 12}, 1, 4));
  EXPECT_EQ(grid.groups("pp"), shifted({0, 8}, 1, 8));
}

// The formula of the default order, written out.
TEST(RankGrid, DefaultOrderIsTensorFastest) {
  const RankGrid grid({.tensor = 3, .context = 2, .data = 5, .pipeline = 4});
  for (int pp = 0; pp < 4; ++pp) {
    for (int dp = 0; dp < 5; ++dp) {
      for (int cp = 0; cp < 2; ++cp) {
        for (int tp = 0; tp < 3; ++tp) {
          EXPECT_EQ(grid.rank_of({.tensor = tp, .context = cp, .data = dp, .pipeline = pp}),
                    tp + 3 * (cp + 2 * (dp + 5 * pp)));
        }
      }
    }
  }
}

// Megatron's generator as its documentation states it: group g is decomposed over the other axes,
// member r over the named ones, each in the order of the order string, and strides add up.
RankGroups orthogonal_groups(const GridSizes& sizes, const std::vector<Axis>& order, int mask) {
  struct Digit {
    int size, stride;
  };
  std::vector<Digit> masked, unmasked;
  int world = 1;
  int members = 1;
  for (const Axis axis : order) {
    const bool is_masked = (mask >> static_cast<int>(axis) & 1) != 0;
    (is_masked ? masked : unmasked).push_back({sizes[axis], world});
    if (is_masked) members *= sizes[axis];
    world *= sizes[axis];
  }
  const auto offset = [](int number, const std::vector<Digit>& digits) {
    int sum = 0;
    for (const Digit& digit : digits) {
      sum += number % digit.size * digit.stride;
      number /= digit.size;
    }
    return sum;
  };
  RankGroups groups;
  for (int g = 0; g < world / members; ++g) {
    groups.emplace_back();
    for (int r = 0; r < members; ++r) {
      groups.back().push_back(offset(r, masked) + offset(g, unmasked));
    }
  }
  return groups;
}

std::string spell(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis axis : axes) text += (text.empty() ? "" : "-") + std::string(name_of(axis));
  return text;
}

std::vector<Axis> axes_of(int mask) {
  std::vector<Axis> axes;
  for (int i = 0; i < kAxes; ++i) {
    if ((mask >> i & 1) != 0) axes.push_back(static_cast<Axis>(i));
  }
  return axes;
}

void expect_orthogonal(const RankGrid& grid, const std::vector<Axis>& order, int mask) {
  std::vector<Axis> axes = axes_of(mask);
  const RankGroups groups = grid.groups(spell(axes));
  EXPECT_EQ(groups, orthogonal_groups(grid.sizes(), order, mask));

  int members = 1;
  for (const Axis axis : axes) members *= grid.sizes()[axis];
  std::vector<int> all;
  for (const auto& group : groups) {
    EXPECT_THAT(group, SizeIs(members));
    all.insert(all.end(), group.begin(), group.end());
    const GridCoordinates first = grid.coordinates(group.front());
    for (const int rank : group) {
      const GridCoordinates place = grid.coordinates(rank);
      for (int i = 0; i < kAxes; ++i) {
        const auto axis = static_cast<Axis>(i);
        if ((mask >> i & 1) == 0) {
          EXPECT_EQ(place[axis], first[axis]);
        }
      }
    }
  }
  std::sort(all.begin(), all.end());
  std::vector<int> world(static_cast<std::size_t>(grid.world_size()));
  std::iota(world.begin(), world.end(), 0);
  EXPECT_EQ(all, world);

  std::reverse(axes.begin(), axes.end());
  EXPECT_EQ(grid.groups(spell(axes)), groups) << "the spelling decides nothing";
}

TEST(RankGrid, GroupsOfEveryOrderAndMask) {
  const std::vector<GridSizes> all_sizes = {{.tensor = 2, .context = 2, .data = 2, .pipeline = 2},
                                            {.tensor = 2, .context = 3, .data = 4, .pipeline = 5},
                                            {.tensor = 3, .expert = 2, .data = 1, .pipeline = 4},
                                            {}};
  int orders = 0;
  for (const GridSizes& sizes : all_sizes) {
    std::vector<Axis> order = axes_of((1 << kAxes) - 1);
    do {
      ++orders;
      const RankGrid grid(sizes, spell(order));
      SCOPED_TRACE(grid.order());
      EXPECT_EQ(grid.order(), spell(order));
      for (int mask = 1; mask < 1 << kAxes; ++mask) expect_orthogonal(grid, order, mask);
      for (int rank = 0; rank < grid.world_size(); ++rank) {
        EXPECT_EQ(grid.rank_of(grid.coordinates(rank)), rank);
      }
      if (HasFailure()) return;
    } while (std::next_permutation(order.begin(), order.end()));
  }
  EXPECT_EQ(orders, 120 * 4);
}

TEST(RankGrid, AxesHaveNames) {
  EXPECT_EQ(spell(axes_of((1 << kAxes) - 1)), "tp-cp-ep-dp-pp");
  const GridSizes sizes{.tensor = 2, .context = 3, .expert = 4, .data = 5, .pipeline = 6};
  EXPECT_EQ(sizes[Axis::kTensor], 2);
  EXPECT_EQ(sizes[Axis::kContext], 3);
  EXPECT_EQ(sizes[Axis::kExpert], 4);
  EXPECT_EQ(sizes[Axis::kData], 5);
  EXPECT_EQ(sizes[Axis::kPipeline], 6);
}

std::string message_of(const GridSizes& sizes, std::string_view order) {
  return error_of<ConfigError>([&] { RankGrid grid(sizes, order); });
}

TEST(RankGrid, RefusesWhatIsNoGrid) {
  EXPECT_THAT(message_of({.tensor = 0}, kDefaultOrder), HasSubstr("tp is 0"));
  EXPECT_THAT(message_of({.data = -2}, kDefaultOrder), HasSubstr("dp is -2"));
  EXPECT_THAT(message_of({}, "tp-cp-tp-dp-pp"), HasSubstr("tp stands twice"));
  EXPECT_THAT(message_of({}, "tp-xp-dp-pp"),
              HasSubstr("--rank-order tp-xp-dp-pp: \"xp\" is no axis"));
  EXPECT_THAT(message_of({}, ""), HasSubstr("\"\" is no axis"));
  EXPECT_THAT(message_of({}, "tp-"), HasSubstr("\"\" is no axis"));
  EXPECT_THAT(message_of({.pipeline = 4}, "tp-dp"), HasSubstr("pp is missing, and its size is 4"));
  EXPECT_THAT(message_of({.context = 2, .expert = 2}, kDefaultOrder),
              HasSubstr("context parallel size 2 and expert parallel size 2"));
  EXPECT_THAT(message_of({.tensor = 1 << 20, .data = 1 << 20}, kDefaultOrder),
              HasSubstr("more than 2147483647 ranks"));

  const RankGrid grid({.tensor = 2});
  EXPECT_THROW(grid.groups("tp-qp"), ConfigError);
  EXPECT_THROW(grid.groups("tp-tp"), ConfigError);
  EXPECT_THROW(grid.groups(""), ConfigError);
  EXPECT_THROW(grid.coordinates(2), InternalError);
  EXPECT_THROW(grid.coordinates(-1), InternalError);
  EXPECT_THROW(grid.rank_of({.tensor = 2}), InternalError);
  EXPECT_THROW(grid.rank_of({.pipeline = 1}), InternalError);
}

}  // namespace
}  // namespace phalanx
