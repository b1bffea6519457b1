// Parameters with several roles: the sum has the bits of one rank for any assignment of roles.

#include "phalanx/data_parallel/shared_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/data_parallel/test_support.h"
#include "phalanx/ops/embedding.h"

namespace phalanx {
namespace {

using nn::values_of;
using testing::ElementsAre;
using Gradient = ParamRole::Gradient;

constexpr std::int64_t kRows = 7, kColumns = 19;
const LocalOptions kSoonTired{.threads_per_rank = 1, .timeout = std::chrono::seconds(20)};

// Roles 0, 1, ... of one parameter, each in its own stage, and the rank of every stage.
struct Roles {
  std::vector<Gradient> gradients;
  std::vector<int> ranks;

  int size() const { return static_cast<int>(ranks.size()); }
  int holders() const { return std::ranges::max(ranks) + 1; }
  std::string name() const {
    std::string text;
    for (int r = 0; r < size(); ++r) {
      const bool dense = gradients[static_cast<std::size_t>(r)] == Gradient::kDense;
      text +=
          fmt::format(" {} on {}", dense ? "dense" : "rows", ranks[static_cast<std::size_t>(r)]);
    }
    return text;
  }
};

void add_stage(nn::ParamTable& table, const Roles& roles, int stage) {
  table.begin_chunk();
  ParamSpec spec =
      whole_parameter("shared", {kRows, kColumns}, DType::kF64, {Initialiser::Kind::kNormal, 0.5});
  spec.shared_by = "sharing";
  table.add_shared(spec, {.order = stage,
                          .gradient = roles.gradients[static_cast<std::size_t>(stage)],
                          .sequence = stage % 2});
  table.add(whole_parameter(fmt::format("own {}", stage), {4000}, DType::kF64, {}));
}

// The table of one rank; `rank` < 0: of all stages.
nn::ParamTable table_of(const Roles& roles, int rank) {
  nn::ParamTable table;
  for (int stage = 0; stage < roles.size(); ++stage) {
    if (rank < 0 || roles.ranks[static_cast<std::size_t>(stage)] == rank) {
      add_stage(table, roles, stage);
    }
  }
  return table;
}

// The gradient of a role on a data-parallel rank; uses all 53 bits.
double noise_of(int role, int data, std::int64_t i) {
  return noise(static_cast<std::uint64_t>(100 * data + role), static_cast<std::uint64_t>(i)) * 1.1;
}

// Whether a role by rows adds to the row: two rows of each microbatch, one of them common to all.
bool has_row(const Roles& roles, int role, std::int64_t row) {
  return roles.gradients[static_cast<std::size_t>(role)] == Gradient::kDense || row == 5 ||
         row == role;
}

Values expected_sum(const Roles& roles, int data) {
  Values sum(static_cast<std::size_t>(kRows * kColumns), 0.0);
  for (int d = 0; d < data; ++d) {
    for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
      double of_rank = 0.0;
      for (int role = 0; role < roles.size(); ++role) {
        if (has_row(roles, role, i / kColumns)) of_rank += noise_of(role, d, i);
      }
      sum[static_cast<std::size_t>(i)] += of_rank;
    }
  }
  return sum;
}

struct Way {
  int data = 1;
  bool sharded = false;
  bool overlap = false;
};

// A rank of a pipeline, numbered with the data-parallel rank fastest.
class HoldingRank {
 public:
  HoldingRank(Communicator& world, const Roles& roles, const Way& way)
      : roles_(roles),
        way_(way),
        pipeline_rank_(world.rank() / way.data),
        shared_(shared_parameters(table_of(roles, -1), roles.ranks)),
        data_(world.split(data_groups(), "dp")),
        group_(world.split(holder_groups(), "sharing")),
        table_(table_of(roles, pipeline_rank_)),
        sums_(shared_sums(table_, shared_, pipeline_rank_)),
        stores_(table_, model_places(table_, table_of(roles, -1), shared_, pipeline_rank_), sums_,
                way.sharded ? StateCut{{{data_->rank(), way.data}}, 4096} : StateCut{}),
        data_parallel_(stores_.parameters, stores_.gradients, uses(),
                       {.data = {way.data > 1 ? data_.get() : nullptr}, .shared = {group_.get()}},
                       {}, {.overlap_grad_reduce = way.overlap}, stores_.memory) {}

  // Overwrites the result of the last step.
  void step() {
    GradientStore& gradients = stores_.gradients;
    gradients.begin_update();
    ops::fill(stores_.context, {.x = gradients.flat(), .value = 1e9});
    data_parallel_.begin(stores_.context, 0);
    for (int chunk = table_.num_chunks(); chunk-- > 0;) {
      for (ParamId id = 0; id < table_.size(); ++id) {
        if (table_[id].name == "shared" || table_.chunk(id) != chunk) continue;
        gradients.gradients().mark_written(id);
        set_each(gradients.gradient(id), [](std::int64_t) { return 0.0; });
        data_parallel_.grad_ready(id, 0);
      }
      add_role(chunk);
      data_parallel_.reduce(chunk);
    }
    data_parallel_.finish_reduction();
  }

  const StoreRank& stores() const { return stores_; }
  const SharedSum& sum() const { return sums_.at(0); }
  ParamId id() const { return sums_.at(0).id; }
  int pipeline_rank() const { return pipeline_rank_; }
  int data_rank() const { return data_->rank(); }
  // Copies this rank's part of the sum to `whole`.
  void collect(Values& whole) const {
    for (const Segment& segment : stores_.parameters.states().segments()) {
      if (segment.id != id()) continue;
      std::ranges::copy(values_of(stores_.gradients.gradient(segment)),
                        whole.begin() + segment.begin);
    }
  }

 private:
  std::vector<int> uses() const {
    std::vector<int> uses(table_.specs().size(), 1);
    uses[static_cast<std::size_t>(id())] = table_.num_chunks();
    return uses;
  }
  void add_role(int chunk) {
    const auto role = std::ranges::find(table_.roles(), chunk, &nn::ParamTable::Role::chunk);
    const nn::ParamUse use{role->id, static_cast<int>(role - table_.roles().begin())};
    const nn::Gradients gradients = stores_.gradients.gradients();
    const int order = role->role.order;
    const bool was_written = gradients.is_written(use);
    gradients.mark_written(use);
    if (!gradients.has_rows(use)) {
      EXPECT_FALSE(was_written);
      set_each(gradients[use], [&](std::int64_t i) { return noise_of(order, data_->rank(), i); });
    } else {
      add_rows(gradients.rows(use), order);
    }
    data_parallel_.grad_ready(use.id, 0);
  }
  void add_rows(const nn::SparseGradient& sparse, int role) {
    const WorkspaceScope scope(stores_.workspace);
    const Tensor ids = stores_.workspace.allocate(DType::kI32, {2, 1});
    ids.span<std::int32_t>()[0] = role;
    ids.span<std::int32_t>()[1] = 5;
    const Tensor dy = stores_.workspace.allocate(DType::kF64, {2, 1, kColumns});
    set_each(dy, [&](std::int64_t i) {
      const std::int64_t row = i < kColumns ? role : 5;
      return noise_of(role, data_->rank(), row * kColumns + i % kColumns);
    });
    ops::sparse_embedding_gradient(stores_.context, {.slots = sparse.slots,
                                                     .rows = sparse.rows,
                                                     .count = sparse.count,
                                                     .values = sparse.values,
                                                     .ids = ids,
                                                     .dy = dy});
  }
  std::vector<std::vector<int>> data_groups() const {
    std::vector<std::vector<int>> groups;
    for (int holder = 0; holder < roles_.holders(); ++holder) {
      auto& group = groups.emplace_back();
      for (int d = 0; d < way_.data; ++d) group.push_back(holder * way_.data + d);
    }
    return groups;
  }
  std::vector<std::vector<int>> holder_groups() const {
    std::vector<std::vector<int>> groups;
    for (int d = 0; roles_.holders() > 1 && d < way_.data; ++d) {
      auto& group = groups.emplace_back();
      for (const int holder : shared_.at(0).holders) group.push_back(holder * way_.data + d);
    }
    return groups;
  }

  const Roles roles_;
  const Way way_;
  const int pipeline_rank_;
  const std::vector<SharedParameter> shared_;
  const std::unique_ptr<Communicator> data_, group_;
  const nn::ParamTable table_;
  const std::vector<SharedSum> sums_;
  StoreRank stores_;
  DataParallel data_parallel_;
};

// Checks that every holder has the same, correct sum.
void expect_one_sum(const Roles& roles, const Way& way) {
  SCOPED_TRACE(fmt::format("{}; data {}, sharded {}, overlap {}", roles.name(), way.data,
                           way.sharded, way.overlap));
  const Values expected = expected_sum(roles, way.data);
  std::vector<Values> sums(static_cast<std::size_t>(roles.holders()), Values(expected.size(), -1));
  run_local_ranks(roles.holders() * way.data, kSoonTired, [&](Communicator& world) {
    HoldingRank rank(world, roles, way);
    // The second step must not contain rows of the first.
    rank.step();
    rank.step();
    if (way.sharded || rank.data_rank() == 0) {
      rank.collect(sums[static_cast<std::size_t>(rank.pipeline_rank())]);
    }
  });
  for (const Values& sum : sums) EXPECT_EQ(sum, expected);
}

// All ways to assign `roles` to ranks 0, 1, ..., each with at least one.
std::vector<std::vector<int>> assignments(int roles, int most_ranks) {
  std::vector<std::vector<int>> all;
  int count = 1;
  for (int r = 0; r < roles; ++r) count *= most_ranks;
  for (int number = 0; number < count; ++number) {
    std::vector<int> ranks;
    for (int r = 0, rest = number; r < roles; ++r, rest /= most_ranks) {
      ranks.push_back(rest % most_ranks);
    }
    const std::set<int> holders(ranks.begin(), ranks.end());
    if (*holders.rbegin() + 1 == std::ssize(holders)) all.push_back(ranks);
  }
  return all;
}

std::vector<Gradient> gradients_of(int roles, int bits) {
  std::vector<Gradient> gradients;
  for (int r = 0; r < roles; ++r) {
    gradients.push_back((bits >> r) % 2 == 0 ? Gradient::kDense : Gradient::kRows);
  }
  return gradients;
}

TEST(SharedParameters, HaveTheSumOfOneRankForAnyAssignment) {
  for (const std::vector<int>& ranks : assignments(3, 3)) {
    for (int bits = 0; bits < 8; ++bits) expect_one_sum({gradients_of(3, bits), ranks}, {});
  }
}

TEST(SharedParameters, OfManyRolesHaveTheSumOfOneRank) {
  for (const std::vector<int>& ranks : assignments(5, 2)) {
    expect_one_sum({gradients_of(5, 0), ranks}, {});
    expect_one_sum({gradients_of(5, 0b01101), ranks}, {});
  }
}

TEST(SharedParameters, AreSummedBeforeDataParallelism) {
  const std::vector<int> all[] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {1, 0, 1}, {2, 1, 0}};
  for (const std::vector<int>& ranks : all) {
    for (const bool sharded : {false, true}) {
      for (const bool overlap : {false, true}) {
        expect_one_sum({gradients_of(3, 0b110), ranks}, {2, sharded, overlap});
      }
    }
  }
}

// The test's numbers reveal the order of sums.
TEST(SharedParameters, OtherOrdersHaveOtherBits) {
  const Roles roles{gradients_of(3, 0), {0, 0, 0}};
  Values other;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    other.push_back(noise_of(0, 0, i) + (noise_of(1, 0, i) + noise_of(2, 0, i)));
  }
  EXPECT_NE(expected_sum(roles, 1), other);
}

std::vector<SharedParameter> facts_of(const std::vector<int>& ranks) {
  const Roles roles{gradients_of(static_cast<int>(ranks.size()), 0), ranks};
  return shared_parameters(table_of(roles, -1), roles.ranks);
}

TEST(SharedParameters, ListTheirHolders) {
  const auto facts = facts_of({3, 2, 0});
  ASSERT_EQ(facts.size(), 1U);
  EXPECT_EQ(facts[0].name, "shared");
  EXPECT_EQ(facts[0].shared_by, "sharing");
  EXPECT_THAT(facts[0].holders, ElementsAre(3, 2, 0));
  EXPECT_EQ(facts[0].counting_holder(), 0);
  EXPECT_FALSE(facts[0].is_chain);
  EXPECT_EQ(facts_of({1, 1, 0})[0].runs.size(), 2U);
}

TEST(SharedParameters, UseAChainIfAnAllReduceHasAnotherOrder) {
  EXPECT_FALSE(facts_of({0, 0, 0})[0].is_chain);
  EXPECT_FALSE(facts_of({1, 1, 0})[0].is_chain);
  EXPECT_FALSE(facts_of({2, 1, 0})[0].is_chain);
  EXPECT_TRUE(facts_of({0, 1, 1})[0].is_chain);
  EXPECT_TRUE(facts_of({0, 1, 0})[0].is_chain);
  EXPECT_TRUE(facts_of({0, 0, 1, 1})[0].is_chain);
}

TEST(SharedParameters, AreCountedOnce) {
  const Roles roles{gradients_of(3, 0), {1, 2, 1}};
  const nn::ParamTable whole = table_of(roles, -1);
  const auto shared = shared_parameters(whole, roles.ranks);
  for (const int rank : {1, 2}) {
    const nn::ParamTable table = table_of(roles, rank);
    const ModelPlaces places = model_places(table, whole, shared, rank);
    for (ParamId id = 0; id < table.size(); ++id) {
      EXPECT_EQ(places.counted[static_cast<std::size_t>(id)],
                rank == 1 || table[id].name != "shared");
    }
  }
  for (const bool counted : whole_model_places(whole).counted) EXPECT_TRUE(counted);
}

// A head and the embeddings: the dense role accumulates in the main gradient on any holder, and
// rows are bounded by the tokens of their sequence.
TEST(SharedParameters, TakeMemoryOnce) {
  const Roles roles{gradients_of(3, 0b110), {1, 1, 0}};
  const nn::ParamTable table = table_of(roles, 1);
  Arena memory("memory", 1 << 20);
  const auto shared = shared_parameters(table_of(roles, -1), roles.ranks);
  const StateLayout states(table);
  GradientStore store(states, shared_sums(table, shared, 1), DType::kF64, {4, 2}, memory);
  EXPECT_EQ(store.gradients().roles[0].dense.data(), store.gradient(0).data());
  EXPECT_EQ(store.gradients().roles[1].rows.values.shape, (Shape{2, kColumns}));
  const nn::ParamTable first = table_of(roles, 0);
  const StateLayout first_states(first);
  GradientStore others(first_states, shared_sums(first, shared, 0), DType::kF64, {4, 2}, memory);
  EXPECT_EQ(others.gradients().roles[0].rows.values.shape, (Shape{4, kColumns}));
}

std::vector<std::string> messages_of(const Roles& roles) {
  std::vector<std::string> texts;
  run_local_ranks(roles.holders(), kSoonTired, [&](Communicator& world) {
    HoldingRank rank(world, roles, {});
    rank.step();
    if (world.rank() != 0) return;
    for (const Message& message : rank.stores().recorder.messages()) {
      if (message.group != "sharing") continue;
      texts.push_back(fmt::format("{} {}", message.op, message.bytes));
    }
  });
  return texts;
}

TEST(SharedParameters, SendTheirSumAlongTheChain) {
  const std::int64_t bytes = kRows * kColumns * 8;
  EXPECT_THAT(messages_of({gradients_of(3, 0), {0, 1, 2}}),
              ElementsAre(fmt::format("all_reduce {}", bytes)));
  const auto chain = messages_of({gradients_of(4, 0), {0, 1, 1, 0}});
  ASSERT_EQ(chain.size(), 3U);
  EXPECT_EQ(chain[0], fmt::format("send {}", bytes));
  EXPECT_TRUE(messages_of({gradients_of(3, 0), {0, 0, 0}}).empty());
}

TEST(SharedParameters, NeedTheOtherHolders) {
  for (const std::vector<int>& ranks : {std::vector<int>{0, 1, 1}, {0, 1, 2}}) {
    const Roles roles{gradients_of(3, 0), ranks};
    const nn::ParamTable whole = table_of(roles, -1), table = table_of(roles, 0);
    const auto shared = shared_parameters(whole, roles.ranks);
    StoreRank stores(table, model_places(table, whole, shared, 0), shared_sums(table, shared, 0));
    EXPECT_THROW(
        DataParallel(stores.parameters, stores.gradients, {1, 1}, {}, {}, {}, stores.memory),
        InternalError);
  }
}

TEST(SharedParameters, DetectARoleThatNoPassWrote) {
  const Roles roles{gradients_of(2, 0), {0, 0}};
  const nn::ParamTable table = table_of(roles, 0);
  StoreRank stores(table);
  stores.gradients.begin_update();
  const nn::Gradients gradients = stores.gradients.gradients();
  for (ParamId id = 0; id < table.size(); ++id) gradients.mark_written(id);
  gradients.mark_written(nn::ParamUse{0, 0});
  EXPECT_THROW(stores.gradients.expect_complete(), InternalError);
  gradients.mark_written(nn::ParamUse{0, 1});
  stores.gradients.expect_complete();
}

TEST(ParamTable, ListsASharedParameterOnce) {
  nn::ParamTable table;
  ParamSpec spec = whole_parameter("shared", {4, 2}, DType::kF32, {});
  EXPECT_THROW(table.add_shared(spec, {}), InternalError);  // without users
  spec.shared_by = "sharing";
  const nn::ParamUse first = table.add_shared(spec, {.order = 3});
  const nn::ParamUse second = table.add_shared(spec, {.order = 1});
  EXPECT_EQ(first.id, second.id);
  EXPECT_NE(first.role, second.role);
  EXPECT_EQ(table.size(), 1);
  EXPECT_THROW(table.add_shared(spec, {.order = 3}), InternalError);
  ParamSpec other = whole_parameter("shared", {4, 3}, DType::kF32, {});
  other.shared_by = "sharing";
  EXPECT_THROW(table.add_shared(other, {.order = 4}), InternalError);
}

}  // namespace
}  // namespace phalanx
