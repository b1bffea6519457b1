// Cut gradients: each microbatch's gradients are summed unit by unit and added to the shard.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/data_parallel/data_parallel.h"
#include "phalanx/data_parallel/unit_test_support.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {
namespace {

using nn::PassKind;
using nn::PassOrder;
using nn::values_of;

constexpr PassOrder kOneByOne{.backward_follows = true};
constexpr int kSumsOfAStep = 3;  // microbatches

// Ranks are numbered with the tensor-parallel rank fastest, then the ranks that share a copy.
struct CutLayout {
  int tensor = 1;
  int shards = 2;
  int copies = 1;
  bool overlap = false;
  std::int64_t bucket_size = 0;
  bool cuts_weights = false;

  int size() const { return tensor * shards * copies; }
  std::string name() const {
    return fmt::format("t{} d{} x{}, overlap {}, buckets of {}, weights {}", tensor, shards, copies,
                       overlap, bucket_size, cuts_weights);
  }
};

// The amount that a rank adds to an element in a microbatch.
double added(int rank, int microbatch, int use, std::int64_t element) {
  return noise(static_cast<std::uint64_t>(1000 * rank + 100 * microbatch + use),
               static_cast<std::uint64_t>(element));
}

class CutRank {
 public:
  CutRank(Communicator& world, const CutLayout& layout)
      : layout_(layout),
        rank_(world.rank()),
        chunk_(DType::kF64, layout.tensor > 1),
        tensor_(group(world, "tp", [&](int r) { return r / layout.tensor; })),
        shards_(group(world, "dp-shard",
                      [&](int r) {
                        return r / (layout.tensor * layout.shards) * layout.tensor +
                               r % layout.tensor;
                      })),
        replicas_(
            group(world, "dp-replica", [&](int r) { return r % (layout.tensor * layout.shards); })),
        stores_(chunk_.table, cut()),
        order_(chunk_.order(stores_.parameters.states().groups())),
        data_parallel_(stores_.parameters, stores_.gradients, chunk_.uses(),
                       {.data = {shards_.get()}, .replicas = {replicas_.get()}},
                       TensorRegion({.rank = tensor_ ? tensor_->rank() : 0,
                                     .size = layout.tensor,
                                     .sequence = layout.tensor > 1},
                                    tensor_.get()),
                       {.overlap_grad_reduce = layout.overlap}, stores_.memory, {order_}) {
    for (const SavedTensor& tensor : data_parallel_.lent_tensors(0, kOneByOne)) {
      lent_.push_back(stores_.memory.allocate(tensor.dtype, tensor.shape));
    }
  }

  // The backward passes of a step; gradients first hold the values of an earlier step.
  void train_step() {
    ops::fill(stores_.context, {.x = stores_.gradients.flat(), .value = std::nan("")});
    stores_.gradients.begin_update();
    data_parallel_.begin(stores_.context, kSumsOfAStep - 1);
    stores_.recorder.clear();
    for (int microbatch = 0; microbatch < kSumsOfAStep; ++microbatch) backward(microbatch);
    messages_of_passes = stores_.recorder.messages();
    data_parallel_.reduce(0);
    data_parallel_.finish_reduction();
  }

  // The sum over all ranks and uses that add to the element.
  double expected(ParamId id, std::int64_t element) const {
    double sum = 0.0;
    for (int r = 0; r < layout_.size(); ++r) {
      const bool is_partial = chunk_.table[id].summed_over.has(Axis::kTensor);
      if (!is_partial && r % layout_.tensor != rank_ % layout_.tensor) continue;
      for (int m = 0; m < kSumsOfAStep; ++m) {
        sum += added(r, m, id, element);
        if (id == chunk_.head.id) sum += added(r, m, kEmbeddingUse, element);
      }
    }
    return sum;
  }
  void expect_sums() const {
    for (const Segment& segment : stores_.parameters.states().segments()) {
      const Values sums = values_of(stores_.gradients.gradient(segment));
      for (std::size_t i = 0; i < sums.size(); ++i) {
        ASSERT_NEAR(sums[i], expected(segment.id, segment.begin + static_cast<std::int64_t>(i)),
                    1e-13)
            << "element " << i << " of " << chunk_.table[segment.id].name;
      }
    }
  }

  const StoreRank& stores() const { return stores_; }
  DataParallel& data_parallel() { return data_parallel_; }
  std::vector<Message> messages_of_passes;

 private:
  static constexpr int kEmbeddingUse = 50;

  template <typename GroupOf>
  std::unique_ptr<Communicator> group(Communicator& world, const std::string& name,
                                      const GroupOf& group_of) const {
    std::vector<std::vector<int>> groups;
    for (int r = 0; r < layout_.size(); ++r) {
      const auto number = static_cast<std::size_t>(group_of(r));
      if (groups.size() <= number) groups.resize(number + 1);
      groups[number].push_back(r);
    }
    if (groups.front().size() == 1) return nullptr;
    return world.split(groups, name);
  }
  StateCut cut() const {
    return {.domains = {{.rank = shards_->rank(), .ranks = layout_.shards}},
            .bucket_size = layout_.bucket_size,
            .gradients = true,
            .weights = layout_.cuts_weights,
            .groups = chunk_.groups(layout_.cuts_weights ? 97 : -1)};
  }
  int moment(const PassPoint& point) const { return order_.backward_moment(point.unit); }

  void backward(int microbatch) {
    data_parallel_.enter(0, kOneByOne, false, lent_);
    const EmptyPass nothing(stores_.context, {});
    for (int u = order_.size(); u-- > 0;) {
      const nn::Unit& unit = *chunk_.units[static_cast<std::size_t>(u)];
      fill_unlent(order_.backward_moment(u));
      for (const PassKind pass : {PassKind::kBackwardInput, PassKind::kBackwardWeight}) {
        data_parallel_.before(unit, pass, microbatch);
      }
      add(unit, microbatch);
      for (const PassKind pass : {PassKind::kBackwardInput, PassKind::kBackwardWeight}) {
        data_parallel_.after(unit, pass, microbatch, nothing.tensors());
      }
      for (const ParamId id : unit.parameters()) data_parallel_.grad_ready(id, microbatch);
    }
  }
  // Fills lent tensors with NaN outside the moments for which they were lent.
  void fill_unlent(int now) {
    const std::vector<SavedTensor> lives = data_parallel_.lent_tensors(0, kOneByOne);
    for (std::size_t i = 0; i < lives.size(); ++i) {
      if (moment(lives[i].born) <= now && now <= moment(lives[i].last)) continue;
      ops::fill(stores_.context, {.x = lent_[i], .value = std::nan("")});
    }
  }
  // The first pass of a microbatch over a gradient overwrites it.
  void add(const nn::Unit& unit, int microbatch) {
    const nn::Gradients gradients = stores_.gradients.gradients();
    for (const ParamId id : unit.parameters()) {
      nn::ParamUse use{.id = id};
      if (id == chunk_.head.id) use = unit.name() == "head" ? chunk_.head : chunk_.embedding;
      EXPECT_FALSE(gradients.is_written(use)) << unit.name() << " " << id;
      gradients.mark_written(use);
      const int number = unit.name() == "embedding" && id == chunk_.head.id ? kEmbeddingUse : id;
      set_each(gradients[use], [&](std::int64_t i) { return added(rank_, microbatch, number, i); });
    }
  }

  CutLayout layout_;
  int rank_;
  UnitChunk chunk_;
  std::unique_ptr<Communicator> tensor_, shards_, replicas_;
  StoreRank stores_;
  UnitOrder order_;
  DataParallel data_parallel_;
  std::vector<Tensor> lent_;
};

// A rank's shard by parameter; every step gives the same bits.
std::vector<Values> trained_gradients(const CutLayout& layout) {
  std::vector<std::vector<Values>> by_rank(static_cast<std::size_t>(layout.size()));
  run_local_ranks(layout.size(), {}, [&](Communicator& world) {
    CutRank rank(world, layout);
    for (int step = 0; step < 2; ++step) {
      rank.train_step();
      rank.expect_sums();
    }
    const nn::ParamTable& table = rank.stores().table;
    std::vector<Values>& whole = by_rank[static_cast<std::size_t>(world.rank())];
    for (const ParamSpec& spec : table.specs()) {
      whole.emplace_back(static_cast<std::size_t>(spec.local_shape.count()), 0.0);
    }
    for (const Segment& segment : rank.stores().parameters.states().segments()) {
      std::ranges::copy(values_of(rank.stores().gradients.gradient(segment)),
                        whole[static_cast<std::size_t>(segment.id)].begin() + segment.begin);
    }
  });
  // Joined from the ranks of the first copy and the first tensor-parallel rank.
  std::vector<Values> sums = by_rank[0];
  for (int shard = 1; shard < layout.shards; ++shard) {
    const auto& part = by_rank[static_cast<std::size_t>(shard * layout.tensor)];
    for (std::size_t id = 0; id < sums.size(); ++id) {
      for (std::size_t i = 0; i < sums[id].size(); ++i) sums[id][i] += part[id][i];
    }
  }
  return sums;
}

TEST(UnitGradients, AreSumsOverRanksAndMicrobatches) {
  for (const int shards : {2, 3}) {
    const auto expected = trained_gradients({.shards = shards});
    for (const bool overlap : {false, true}) {
      for (const std::int64_t bucket_size : {0, 1, 8192}) {
        for (const bool cuts_weights : {false, true}) {
          CutLayout layout{.shards = shards, .overlap = overlap, .bucket_size = bucket_size};
          layout.cuts_weights = cuts_weights;
          SCOPED_TRACE(layout.name());
          EXPECT_EQ(trained_gradients(layout), expected);
        }
      }
    }
  }
}

TEST(UnitGradients, OfCopiesAreSummedOverCopies) {
  for (const int copies : {2, 3}) {
    for (const bool overlap : {false, true})
      trained_gradients({.copies = copies, .overlap = overlap});
  }
}

TEST(UnitGradients, OfTheStreamAreSumsOverTheSequence) {
  for (const bool overlap : {false, true}) {
    trained_gradients({.tensor = 2, .overlap = overlap});
    trained_gradients({.tensor = 2, .copies = 2, .overlap = overlap, .bucket_size = 1});
  }
}

// One message per bucket and microbatch, during the backward passes. Copies sum their shards once,
// at the end.
TEST(UnitGradients, AreSentWithEveryMicrobatch) {
  run_local_ranks(4, {}, [](Communicator& world) {
    CutRank rank(world, {.copies = 2, .overlap = true, .bucket_size = 8192});
    rank.train_step();
    const auto& buckets = rank.stores().parameters.states().buckets();
    ASSERT_GT(buckets.size(), 5U);
    ASSERT_EQ(rank.messages_of_passes.size(), kSumsOfAStep * buckets.size());
    for (const Message& message : rank.messages_of_passes) {
      EXPECT_EQ(message.group, "dp-shard");
      EXPECT_EQ(message.op, "reduce_scatter");
    }
    const auto& all = rank.stores().recorder.messages();
    ASSERT_EQ(all.size(), rank.messages_of_passes.size() + buckets.size());
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const Message& message = all[rank.messages_of_passes.size() + b];
      EXPECT_EQ(message, (Message{"dp-replica", "all_reduce", 8 * buckets[b].own.count}));
    }
  });
}

// Cut weights are gathered during passes, others after the update.
TEST(UnitGradients, WeightsThatStayAreGatheredAfterTheUpdate) {
  run_local_ranks(2, {}, [](Communicator& world) {
    for (const bool cuts_weights : {false, true}) {
      CutRank rank(world, {.cuts_weights = cuts_weights});
      rank.train_step();
      const std::size_t before = rank.stores().recorder.messages().size();
      rank.data_parallel().gather();
      std::size_t kept = 0;
      const StateLayout& states = rank.stores().parameters.states();
      for (const auto& bucket : states.buckets()) {
        if (!states.cuts_weights(bucket.group)) ++kept;
      }
      EXPECT_GT(kept, 0U);
      EXPECT_EQ(kept < states.buckets().size(), cuts_weights);
      EXPECT_EQ(rank.stores().recorder.messages().size() - before, kept);
    }
  });
}

}  // namespace
}  // namespace phalanx
