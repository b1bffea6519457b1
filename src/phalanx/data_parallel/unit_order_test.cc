#include "phalanx/data_parallel/unit_order.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/data_parallel/unit_test_support.h"

namespace phalanx {
namespace {

using nn::PassKind;
using nn::PassOrder;

constexpr PassOrder kInTurn{.backward_follows = true};
constexpr PassOrder kApart{};
constexpr PassOrder kForwardOnly{.forward_only = true};

// A chunk of n units. Each has its own group; some groups belong to several units.
struct RandomChunk {
  UnitOrder order;
  std::vector<bool> is_cut;
  int shared = 0;

  explicit RandomChunk(std::mt19937& random) {
    const auto below = [&](int limit) { return static_cast<int>(random() % unsigned(limit)); };
    const int units = 1 + below(9);
    shared = below(3);
    for (int u = 0; u < units; ++u) order.units.emplace_back().read_forward = {u};
    for (UnitOrder::Unit& unit : order.units) {
      if (below(5) > 0) unit.read_backward = unit.read_forward;  // an embedding's is empty
    }
    for (int s = 0; s < shared; ++s) {
      for (UnitOrder::Unit& unit : order.units) {
        if (below(3) == 0) unit.read_forward.push_back(units + s);
        if (below(3) == 0) unit.read_backward.push_back(units + s);
      }
    }
    for (int u = 0; u < units;) {
      const int end = std::min(units, u + 1 + below(4));
      const bool is_recomputed = below(2) == 0;
      for (; u < end; ++u) {
        order.units[static_cast<std::size_t>(u)].recomputed_until = is_recomputed ? end - 1 : -1;
      }
    }
    for (int group = 0; group < units + shared; ++group) is_cut.push_back(below(6) > 0);
  }
};

// The groups that are read at a moment; recomputation reads those of all its units.
std::set<int> read_at(const UnitOrder& order, int moment, bool forward_only) {
  std::set<int> groups;
  for (int u = 0; u < order.size(); ++u) {
    const UnitOrder::Unit& unit = order.units[static_cast<std::size_t>(u)];
    const bool is_recomputed_now = !forward_only && unit.recomputed_until >= 0 &&
                                   moment == order.backward_moment(unit.recomputed_until);
    if (moment == order.forward_moment(u) || is_recomputed_now) {
      groups.insert(unit.read_forward.begin(), unit.read_forward.end());
    }
    if (!forward_only && moment == order.backward_moment(u)) {
      groups.insert(unit.read_backward.begin(), unit.read_backward.end());
    }
  }
  return groups;
}

void expect_every_read_is_held_once(const RandomChunk& chunk, const std::vector<WeightHold>& holds,
                                    bool forward_only) {
  const int moments = chunk.order.size() * (forward_only ? 1 : 2);
  for (int moment = 0; moment < moments; ++moment) {
    for (const int group : read_at(chunk.order, moment, forward_only)) {
      const auto holding = std::ranges::count_if(holds, [&](const WeightHold& hold) {
        return hold.group == group && hold.first <= moment && moment <= hold.last;
      });
      EXPECT_EQ(holding, chunk.is_cut[static_cast<std::size_t>(group)] ? 1 : 0)
          << "group " << group << " at moment " << moment;
    }
  }
}

// Holds of a group follow each other; each starts before its use and has a use.
void expect_order(const RandomChunk& chunk, const std::vector<WeightHold>& holds, int prefetch,
                  bool forward_only) {
  std::map<int, int> last;
  int begun = 0;
  for (const WeightHold& hold : holds) {
    EXPECT_GE(hold.gathered, begun);
    begun = hold.gathered;
    EXPECT_LE(std::max(0, hold.first - prefetch), hold.gathered);
    EXPECT_LE(hold.gathered, hold.first);
    EXPECT_LE(hold.first, hold.last);
    const auto known = last.find(hold.group);
    if (known != last.end()) {
      EXPECT_GT(hold.gathered, known->second) << "twice at once: group " << hold.group;
    }
    last[hold.group] = hold.last;
    for (const int end : {hold.first, hold.last}) {
      // Weights of a recomputed unit are held until its backward pass, even if that reads none.
      const int unit = end < chunk.order.size() ? end : 2 * chunk.order.size() - 1 - end;
      const bool is_recomputed =
          end >= chunk.order.size() &&
          chunk.order.units[static_cast<std::size_t>(unit)].recomputed_until >= 0;
      EXPECT_TRUE(is_recomputed || read_at(chunk.order, end, forward_only).contains(hold.group));
    }
  }
}

// The limit with resharding: the present unit, units gathered ahead, groups of several units, and
// units recomputed together in this window.
void expect_few_at_once(const RandomChunk& chunk, const std::vector<WeightHold>& holds,
                        int prefetch) {
  const int units = chunk.order.size();
  for (int moment = 0; moment < 2 * units; ++moment) {
    std::set<int> recomputed;
    for (int u = 0; u < units; ++u) {
      const int until = chunk.order.units[static_cast<std::size_t>(u)].recomputed_until;
      if (until < 0) continue;
      const bool is_in_window = chunk.order.backward_moment(until) <= moment + prefetch &&
                                chunk.order.backward_moment(u) >= moment;
      if (is_in_window) recomputed.insert(u);
    }
    const auto live = std::ranges::count_if(holds, [&](const WeightHold& hold) {
      return hold.gathered <= moment && moment <= hold.last;
    });
    EXPECT_LE(live, prefetch + 1 + chunk.shared + std::ssize(recomputed)) << "moment " << moment;
  }
}

TEST(WeightHolds, OfRandomChunksHoldEveryReadOnceAndFewAtOnce) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    const RandomChunk chunk(random);
    for (const int prefetch : {0, 1, 2, 5}) {
      for (const bool reshard : {true, false}) {
        for (const PassOrder& order : {kInTurn, kApart, kForwardOnly}) {
          const auto holds = weight_holds(chunk.order, chunk.is_cut, order,
                                          {.prefetch = prefetch, .reshard_after_forward = reshard});
          expect_every_read_is_held_once(chunk, holds, order.forward_only);
          expect_order(chunk, holds, prefetch, order.forward_only);
          if (reshard && !order.forward_only) expect_few_at_once(chunk, holds, prefetch);
        }
        if (HasFailure()) FAIL() << "prefetch " << prefetch << ", reshard " << reshard;
      }
    }
  }
}

// If backward passes do not directly follow the forward passes, they start without the weights that
// were gathered for these, except those that stay.
TEST(WeightHolds, OfSeparatePassesEndWithThem) {
  std::mt19937 random(4);
  for (int round = 0; round < 500; ++round) {
    const RandomChunk chunk(random);
    const int backward = chunk.order.size();
    for (const WeightHold& hold :
         weight_holds(chunk.order, chunk.is_cut, kApart, {.prefetch = 2})) {
      EXPECT_TRUE(hold.last < backward || hold.gathered >= backward);
    }
  }
}

// Embedding, layers, head: "g3 4-7" is group 3, gathered at moment 4 and needed until 7.
UnitOrder plain_order(int layers, int recomputed_together = 0) {
  UnitOrder order;
  for (int u = 0; u < layers + 2; ++u) {
    UnitOrder::Unit& unit = order.units.emplace_back();
    unit.read_forward = unit.read_backward = {u};
    const bool is_layer = u > 0 && u <= layers;
    if (!is_layer || recomputed_together == 0) continue;
    const int group = (u - 1) / recomputed_together;
    unit.recomputed_until = std::min(layers, (group + 1) * recomputed_together);
  }
  order.units.front().read_backward.clear();
  return order;
}

std::string described(const std::vector<WeightHold>& holds) {
  std::string text;
  for (const WeightHold& hold : holds) {
    text += fmt::format("g{} {}:{}-{} ", hold.group, hold.gathered, hold.first, hold.last);
  }
  return text;
}

TEST(WeightHolds, OfAPlainChunkStartOneUnitAhead) {
  const UnitOrder order = plain_order(2);
  const std::vector<bool> all(4, true);
  EXPECT_EQ(described(weight_holds(order, all, kInTurn, {})),
            "g0 0:0-0 g1 0:1-1 g2 1:2-2 g3 2:3-4 g2 4:5-5 g1 5:6-6 ");
  EXPECT_EQ(described(weight_holds(order, all, kInTurn, {.prefetch = 0})),
            "g0 0:0-0 g1 1:1-1 g2 2:2-2 g3 3:3-4 g2 5:5-5 g1 6:6-6 ");
  EXPECT_EQ(described(weight_holds(order, all, kApart, {})),
            "g0 0:0-0 g1 0:1-1 g2 1:2-2 g3 2:3-3 g3 4:4-4 g2 4:5-5 g1 5:6-6 ");
  EXPECT_EQ(described(weight_holds(order, all, kForwardOnly, {})),
            "g0 0:0-0 g1 0:1-1 g2 1:2-2 g3 2:3-3 ");
  EXPECT_EQ(described(weight_holds(order, all, kInTurn, {.reshard_after_forward = false})),
            "g0 0:0-0 g1 0:1-6 g2 1:2-5 g3 2:3-4 ");
  EXPECT_EQ(described(weight_holds(order, {false, true, false, true}, kInTurn, {})),
            "g1 0:1-1 g3 2:3-4 g1 5:6-6 ");
  // Both layers are recomputed before the backward pass of the second.
  EXPECT_EQ(described(weight_holds(plain_order(2, 2), all, kInTurn, {})),
            "g0 0:0-0 g1 0:1-1 g2 1:2-2 g3 2:3-4 g1 4:5-6 g2 4:5-5 ");
}

// Two gathers per layer, recomputed or not. One of the embedding, which backward does not read, and
// of the head, whose backward pass comes next. One of every group that stays.
TEST(WeightHolds, AreTwoOfEveryLayerAndOneOfTheEnds) {
  for (const int layers : {4, 7, 24}) {
    for (const int prefetch : {0, 1, 2}) {
      for (const int recomputed_together : {0, 1, 3, layers}) {
        const UnitOrder order = plain_order(layers, recomputed_together);
        const std::vector<bool> all(order.units.size(), true);
        const auto gathers = [&](const PassOrder& passes, bool reshard) {
          return std::ssize(weight_holds(order, all, passes,
                                         {.prefetch = prefetch, .reshard_after_forward = reshard}));
        };
        EXPECT_EQ(gathers(kInTurn, true), 2 * layers + 2);
        EXPECT_EQ(gathers(kApart, true), 2 * layers + 3);
        EXPECT_EQ(gathers(kInTurn, false), layers + 2);
        EXPECT_EQ(gathers(kApart, false), layers + 2);
        EXPECT_EQ(gathers(kForwardOnly, true), layers + 2);
      }
    }
  }
}

TEST(UnitOrders, MomentsGoForwardAndBack) {
  const UnitChunk chunk;
  const UnitOrder order = chunk.order(chunk_groups(chunk.table), {-1, 2, 2, -1});
  const auto moment = [&](int unit, PassKind pass) {
    return order.moment_of(*chunk.units[static_cast<std::size_t>(unit)], pass);
  };
  EXPECT_EQ(moment(1, PassKind::kForward), 1);
  EXPECT_EQ(moment(3, PassKind::kForward), 3);
  EXPECT_EQ(moment(3, PassKind::kBackwardInput), 4);
  EXPECT_EQ(moment(3, PassKind::kBackwardWeight), 4);
  EXPECT_EQ(moment(2, PassKind::kBackwardInput), 5);
  // Before the backward pass of the last unit that is recomputed with it.
  EXPECT_EQ(moment(1, PassKind::kRecompute), 5);
  EXPECT_EQ(moment(2, PassKind::kRecompute), 5);
  EXPECT_EQ(moment(1, PassKind::kBackwardInput), 6);
  const FakeUnit other("other", {});
  EXPECT_EQ(order.index_of(other), -1);
  EXPECT_THROW(order.moment_of(other, PassKind::kForward), InternalError);

  EXPECT_EQ(order.begin(2).pass, PassKind::kForward);
  EXPECT_EQ(order.begin(2).unit, 2);
  EXPECT_EQ(order.begin(6).pass, PassKind::kBackwardInput);
  EXPECT_EQ(order.begin(6).unit, 1);
  EXPECT_EQ(order.end(6).pass, PassKind::kBackwardWeight);
  EXPECT_EQ(order.end(6).unit, 1);
  EXPECT_EQ(order.end(0).pass, PassKind::kForward);
}

TEST(UnitGroups, AreTheUnitsAndSharedParameters) {
  const UnitChunk chunk;
  const ParamGroups groups = chunk.groups();
  // The word table; positions; two layers of three parameters; a norm.
  EXPECT_EQ(groups.of_parameter, (std::vector<int>{0, 1, 2, 2, 2, 3, 3, 3, 4}));
  EXPECT_EQ(groups.chunk, std::vector<int>(5, 0));
  EXPECT_EQ(groups.stays, std::vector<bool>(5, false));

  const UnitOrder order = chunk.order(groups, {-1, -1, -1, -1});
  EXPECT_EQ(order.units[0].read_forward, (std::vector<int>{0, 1}));
  EXPECT_EQ(order.units[0].read_backward, std::vector<int>{});
  EXPECT_EQ(order.units[0].added, (std::vector<int>{0, 1}));
  EXPECT_EQ(order.units[1].read_backward, std::vector<int>{2});
  EXPECT_EQ(order.units[3].read_forward, (std::vector<int>{0, 4}));
}

TEST(UnitGroups, KeepSmallParametersApart) {
  const UnitChunk chunk;
  const std::int64_t bias = chunk.table[2].local_shape.count();
  const ParamGroups groups = chunk.groups(bias);
  // In each layer bias and norm stay, and the weight is cut.
  EXPECT_EQ(groups.of_parameter, (std::vector<int>{0, 1, 2, 3, 2, 4, 5, 4, 6}));
  EXPECT_EQ(groups.stays, (std::vector<bool>{false, false, true, false, true, false, true}));
  EXPECT_EQ(chunk.groups(bias - 1).stays, (std::vector<bool>{false, false, false, false, true}));
}

TEST(UnitGroups, NeedAUnitForEveryParameter) {
  UnitChunk chunk;
  chunk.table.add(whole_parameter("nobody's", {3}, DType::kF32, {}));
  EXPECT_THROW(chunk.groups(), InternalError);
}

}  // namespace
}  // namespace phalanx
