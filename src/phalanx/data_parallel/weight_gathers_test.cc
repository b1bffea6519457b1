#include "phalanx/data_parallel/weight_gathers.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/data_parallel/unit_test_support.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {
namespace {

using nn::PassKind;
using nn::PassOrder;
using nn::values_of;

struct Gathered {
  int ranks = 2;
  std::int64_t stays_below = 0;
  std::int64_t bucket_size = 0;
  GatherOptions options = {};
  std::vector<int> recomputed_until = {-1, -1, -1, -1};

  std::string name() const {
    return fmt::format("{} ranks, stays {}, buckets of {}, prefetch {}, reshard {}, recompute {}",
                       ranks, stays_below, bucket_size, options.prefetch,
                       options.reshard_after_forward, recomputed_until[2] >= 0);
  }
};

// A rank that runs the passes of microbatches unit by unit. It overwrites lent memory outside the
// moments for which it was requested.
class GatheringRank {
 public:
  GatheringRank(Communicator& world, const Gathered& how)
      : stores_(chunk_.table, cut(world, how)),
        order_(chunk_.order(stores_.parameters.states().groups(), how.recomputed_until)),
        gathers_(stores_.parameters, {order_}, {&world}, how.options) {
    gathers_.begin(stores_.context);
    stores_.recorder.clear();
  }

  // A value of a whole weight, which every step changes.
  static double value(ParamId id, std::int64_t element, int step) {
    return noise(static_cast<std::uint64_t>(100 * step + id), static_cast<std::uint64_t>(element));
  }
  void set_weights(int step) {
    step_ = step;
    const StateLayout& states = stores_.parameters.states();
    for (ParamId id = 0; id < chunk_.table.size(); ++id) {
      const Tensor& whole = stores_.parameters.weight(id);
      if (whole) set_each(whole, [&](std::int64_t i) { return value(id, i, step); });
    }
    for (const Segment& s : states.segments()) {
      set_each(stores_.parameters.weight(s),
               [&](std::int64_t i) { return value(s.id, s.begin + i, step); });
    }
  }

  // The lent tensors of a microbatch.
  std::vector<Tensor> allocate(const PassOrder& passes) {
    std::vector<Tensor> lent;
    for (const SavedTensor& tensor : gathers_.lent_tensors(0, passes)) {
      lent.push_back(stores_.memory.allocate(tensor.dtype, tensor.shape));
    }
    return lent;
  }
  void forward(const PassOrder& passes, const std::vector<Tensor>& lent) {
    gathers_.enter(0, passes, true, lent);
    for (int u = 0; u < order_.size(); ++u) {
      fill_unlent(passes, lent, order_.forward_moment(u));
      begin(u, PassKind::kForward);
      end(u, PassKind::kForward);
    }
  }
  void backward(const PassOrder& passes, const std::vector<Tensor>& lent) {
    gathers_.enter(0, passes, false, lent);
    for (int u = order_.size(); u-- > 0;) {
      fill_unlent(passes, lent, order_.backward_moment(u));
      for (int other = 0; other < order_.size(); ++other) {
        const int until = order_.units[static_cast<std::size_t>(other)].recomputed_until;
        if (until == u) begin(other, PassKind::kRecompute);
      }
      begin(u, PassKind::kBackwardInput);
      begin(u, PassKind::kBackwardWeight);
      end(u, PassKind::kBackwardInput);
      expect_weights(u, PassKind::kBackwardWeight);
      end(u, PassKind::kBackwardWeight);
    }
  }

  std::size_t messages() const { return stores_.recorder.messages().size(); }
  std::int64_t elements_gathered() const {
    std::int64_t bytes = 0;
    for (const Message& message : stores_.recorder.messages()) {
      EXPECT_EQ(message.op, "all_gather");
      bytes += message.bytes;
    }
    return bytes / 8;
  }
  const StateLayout& states() const { return stores_.parameters.states(); }
  const WeightGathers& gathers() const { return gathers_; }

 private:
  static StateCut cut(const Communicator& world, const Gathered& how) {
    return {.domains = {{.rank = world.rank(), .ranks = how.ranks}},
            .bucket_size = how.bucket_size,
            .weights = true,
            .groups = UnitChunk().groups(how.stays_below)};
  }
  int moment(const PassPoint& point) const {
    return point.pass == PassKind::kForward ? order_.forward_moment(point.unit)
                                            : order_.backward_moment(point.unit);
  }
  void fill_unlent(const PassOrder& passes, const std::vector<Tensor>& lent, int now) {
    const std::vector<SavedTensor> lives = gathers_.lent_tensors(0, passes);
    for (std::size_t i = 0; i < lives.size(); ++i) {
      if (moment(lives[i].born) <= now && now <= moment(lives[i].last)) continue;
      ops::fill(stores_.context, {.x = lent[i], .value = std::nan("")});
    }
  }
  void begin(int unit, PassKind pass) {
    gathers_.before(*chunk_.units[static_cast<std::size_t>(unit)], pass, 0);
    expect_weights(unit, pass);
  }
  void end(int unit, PassKind pass) {
    const EmptyPass nothing(stores_.context, gathers_.weights());
    gathers_.after(*chunk_.units[static_cast<std::size_t>(unit)], pass, 0, nothing.tensors());
  }
  // The pass has the weights that it needs, and all present weights are correct.
  void expect_weights(int unit, PassKind pass) {
    const nn::Unit& reader = *chunk_.units[static_cast<std::size_t>(unit)];
    const PassKind kind = pass == PassKind::kRecompute ? PassKind::kForward : pass;
    for (const ParamId id : reader.needs(kind)) {
      ASSERT_TRUE(gathers_.weights()[id].defined()) << reader.name() << " " << id;
    }
    for (ParamId id = 0; id < chunk_.table.size(); ++id) {
      const Tensor& weight = gathers_.weights()[id];
      if (!weight) continue;
      const Values values = values_of(weight);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], value(id, static_cast<std::int64_t>(i), step_))
            << "element " << i << " of " << chunk_.table[id].name << " for " << reader.name();
      }
    }
  }

  UnitChunk chunk_;
  StoreRank stores_;
  UnitOrder order_;
  WeightGathers gathers_;
  int step_ = 0;
};

std::vector<Gathered> all_ways() {
  std::vector<Gathered> ways;
  for (const int prefetch : {0, 1, 2, 5}) {
    for (const bool reshard : {true, false}) {
      const GatherOptions options{.prefetch = prefetch, .reshard_after_forward = reshard};
      ways.push_back({.options = options});
      ways.push_back({.ranks = 3, .stays_below = 97, .options = options});
      ways.push_back({.bucket_size = 1, .options = options, .recomputed_until = {-1, 2, 2, -1}});
    }
  }
  return ways;
}

// Every step has its own weights, in training and evaluation.
TEST(WeightGathering, GivesEveryPassTheWeightsOfItsStep) {
  for (const Gathered& how : all_ways()) {
    SCOPED_TRACE(how.name());
    run_local_ranks(how.ranks, {}, [&](Communicator& world) {
      GatheringRank rank(world, how);
      constexpr PassOrder kFollows{.backward_follows = true};
      constexpr PassOrder kEvaluation{.forward_only = true};
      const auto first = rank.allocate(kFollows);
      const auto second = rank.allocate(kFollows);
      const auto evaluation = rank.allocate(kEvaluation);
      for (int step = 0; step < 2; ++step) {
        rank.set_weights(step);
        for (const auto* lent : {&first, &second}) {
          rank.forward(kFollows, *lent);
          rank.backward(kFollows, *lent);
        }
        rank.forward(kEvaluation, evaluation);
      }
    });
  }
}

TEST(WeightGathering, FollowsTheRunningMicrobatch) {
  for (const Gathered& how : all_ways()) {
    SCOPED_TRACE(how.name());
    run_local_ranks(how.ranks, {}, [&](Communicator& world) {
      GatheringRank rank(world, how);
      constexpr PassOrder kApart{};
      const auto first = rank.allocate(kApart);
      const auto second = rank.allocate(kApart);
      for (int step = 0; step < 2; ++step) {
        rank.set_weights(step);
        rank.forward(kApart, first);
        rank.forward(kApart, second);
        rank.backward(kApart, first);
        rank.backward(kApart, second);
      }
    });
  }
}

// Embedding and head are gathered once, a layer and the word table twice.
TEST(WeightGathering, SendsOneMessageForEachBucket) {
  run_local_ranks(2, {}, [](Communicator& world) {
    for (const std::int64_t bucket_size : {0, 1}) {
      GatheringRank rank(world, {.bucket_size = bucket_size});
      constexpr PassOrder kFollows{.backward_follows = true};
      const auto lent = rank.allocate(kFollows);
      rank.set_weights(0);
      rank.forward(kFollows, lent);
      rank.backward(kFollows, lent);
      const std::vector<int> times = {2, 1, 2, 2, 1};  // by group
      std::size_t messages = 0;
      std::int64_t elements = 0;
      for (const StateLayout::Bucket& bucket : rank.states().buckets()) {
        const int gathers = times[static_cast<std::size_t>(bucket.group)];
        messages += static_cast<std::size_t>(gathers);
        elements += gathers * bucket.own.count;
      }
      EXPECT_EQ(rank.messages(), messages);
      EXPECT_EQ(rank.elements_gathered(), elements);
    }
  });
}

// Lent tensors have the size of whole groups, in storage type; uncut groups have none.
TEST(WeightGathering, BorrowsMemoryForCutWeightsOnly) {
  run_local_ranks(2, {}, [](Communicator& world) {
    const GatheringRank rank(world, {.stays_below = 97});
    const StateLayout& states = rank.states();
    std::int64_t held = 0;
    for (const SavedTensor& tensor : rank.gathers().lent_tensors(0, {.backward_follows = true})) {
      EXPECT_EQ(tensor.dtype, DType::kF64);
      held += tensor.shape.count();
    }
    // The word table and both layers' weights twice, positions once; norms and biases stay whole.
    const auto region = [&](std::size_t group) { return states.flat().regions[group].count; };
    EXPECT_EQ(held, 2 * region(0) + region(1) + 2 * region(3) + 2 * region(5));
  });
}

TEST(WeightGathering, RequiresCutWeights) {
  run_local_ranks(1, {}, [](Communicator& world) {
    const UnitChunk chunk;
    const StoreRank stores(chunk.table, {.weights = true, .groups = chunk.groups(0)});
    EXPECT_THROW(WeightGathers(stores.parameters, {}, {&world}, {}), InternalError);
  });
}

}  // namespace
}  // namespace phalanx
