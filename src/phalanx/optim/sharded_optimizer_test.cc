// The optimizer on several ranks: shards of a distributed optimizer, and tensor-parallel parts.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/optim/test_support.h"

namespace phalanx {
namespace {

using nn::values_of;

// What a step leaves behind, by parameter where it is cut.
struct Outcome {
  std::vector<Values> weights, mains;
  std::vector<std::vector<Values>> states;  // by state
  Values norms, skips, zeros;               // by step
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

void put(std::vector<Values>& whole, const Segment& segment, const Tensor& part) {
  std::ranges::copy(values_of(part),
                    whole[static_cast<std::size_t>(segment.id)].begin() + segment.begin);
}

// Gradients as every data-parallel rank would have them of its shard: the first step's are small,
// the second's are clipped, the third's not finite, and some are zero.
void set_step_gradients(const StoreRank& stores, int step) {
  const double scale = step == 1 ? 1e-4 : 1.0;
  for (ParamId id = 0; id < stores.table.size(); ++id) {
    set_each(stores.gradients.gradient(id), [&](std::int64_t i) {
      if (step == 3 && id == 3 && i == 20000) return std::numeric_limits<double>::infinity();
      if (i % 11 == step) return 0.0;
      return scale *
             noise(static_cast<std::uint64_t>(100 * step + id), static_cast<std::uint64_t>(i));
    });
  }
}

using MakeBackend = std::unique_ptr<Backend> (*)();

struct Run {
  DType dtype = DType::kF32;
  MakeBackend backend = make_ref_backend;
  int ranks = 1;
  std::int64_t bucket_size = 0;
  OptimizerSettings settings = kSettings;
  std::optional<double> decoupled_lr = {};
};

constexpr int kSteps = 5;

// Of the five parameters, two that are neighbours and the last are of the input layer.
nn::ParamTable decoupled_table(DType dtype) {
  const nn::ParamTable plain = uneven_table(dtype);
  nn::ParamTable table;
  for (ParamSpec spec : plain.specs()) {
    spec.decoupled_rate = table.size() == 1 || table.size() == 2 || table.size() == 4;
    table.add(std::move(spec));
  }
  return table;
}

Outcome outcome_of(const Run& run) {
  const nn::ParamTable table = decoupled_table(run.dtype);
  Outcome whole;
  for (const ParamSpec& spec : table.specs()) {
    whole.mains.emplace_back(static_cast<std::size_t>(spec.local_shape.count()), -1.0);
  }
  whole.states.resize(state_names(run.settings.rule).size(), whole.mains);
  std::vector<Outcome> scalars(static_cast<std::size_t>(run.ranks));
  std::vector<std::vector<Values>> gathered(scalars.size());
  run_local_ranks(run.ranks, {}, [&](Communicator& world) {
    const auto r = static_cast<std::size_t>(world.rank());
    Communicator* group = run.ranks > 1 ? &world : nullptr;
    OptimizerRank rank(
        table,
        {.domains = {{.rank = world.rank(), .ranks = run.ranks}}, .bucket_size = run.bucket_size},
        {.data = {group}}, run.backend(), run.settings);
    rank.decoupled_lr = run.decoupled_lr;
    DataParallel data_parallel(rank.stores.parameters, rank.stores.gradients, {1, 1, 1, 1, 1},
                               {.data = {group}}, {}, {}, rank.stores.memory);
    data_parallel.begin(rank.stores.context, 0);
    for (int step = 1; step <= kSteps; ++step) {
      set_step_gradients(rank.stores, step);
      rank.step(step);
      data_parallel.gather();
      scalars[r].norms.push_back(values_of(rank.optimizer.norm())[0]);
      scalars[r].skips.push_back(values_of(rank.optimizer.skip())[0]);
      scalars[r].zeros.push_back(values_of(rank.optimizer.zeros())[0]);
    }
    for (ParamId id = 0; id < table.size(); ++id) {
      gathered[r].push_back(values_of(rank.stores.parameters.weight(id)));
    }
    // Every rank writes elements of its own.
    for (const Segment& segment : rank.stores.parameters.states().segments()) {
      put(whole.mains, segment, rank.stores.parameters.main(segment));
      const auto names = rank.optimizer.state_names();
      for (std::size_t i = 0; i < names.size(); ++i) {
        put(whole.states[i], segment, rank.optimizer.state(names[i], segment));
      }
    }
  });
  whole.weights = gathered[0];
  whole.norms = scalars[0].norms;
  whole.skips = scalars[0].skips;
  whole.zeros = scalars[0].zeros;
  for (std::size_t r = 1; r < scalars.size(); ++r) {
    EXPECT_EQ(gathered[r], gathered[0]) << "weights of rank " << r;
    EXPECT_TRUE(std::ranges::equal(scalars[r].norms, whole.norms, [](double a, double b) {
      return a == b || (std::isnan(a) && std::isnan(b));
    }));
    EXPECT_EQ(scalars[r].skips, whole.skips);
    EXPECT_EQ(scalars[r].zeros, whole.zeros);
  }
  return whole;
}

std::unique_ptr<Backend> one_thread() { return make_cpu_backend(1, cpu::ProductPrecision::kFp32); }

void expect_shards_are_the_whole(Run run) {
  const Outcome expected = outcome_of(run);
  EXPECT_EQ(expected.skips, (Values{0, 0, 1, 0, 0}));
  EXPECT_GT(expected.zeros[0], 2000.0);
  for (const int ranks : {2, 3}) {
    for (const std::int64_t size : {0, 1, 20000}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks, buckets of {}", name_of(run.dtype), ranks, size));
      run.ranks = ranks;
      run.bucket_size = size;
      const Outcome actual = outcome_of(run);
      EXPECT_EQ(actual.norms, expected.norms);
      EXPECT_EQ(actual.skips, expected.skips);
      EXPECT_EQ(actual.zeros, expected.zeros);
      EXPECT_TRUE(actual.weights == expected.weights);
      EXPECT_TRUE(actual.mains == expected.mains);
      EXPECT_TRUE(actual.states == expected.states);
    }
  }
}

TEST(ShardedOptimizer, IsTheWholeOneBitForBit) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    expect_shards_are_the_whole({.dtype = dtype});
  }
}

TEST(ShardedOptimizer, DescendsAsTheWholeOneWithTwoRates) {
  OptimizerSettings settings = kSettings;
  settings.rule = SgdRule{.momentum = 0.9};
  expect_shards_are_the_whole({.dtype = DType::kBF16, .settings = settings, .decoupled_lr = 0.05});
  // The second rate reaches its parameters, and them alone.
  const Outcome one = outcome_of({});
  const Outcome two = outcome_of({.decoupled_lr = 0.05});
  for (std::size_t id = 0; id < one.weights.size(); ++id) {
    EXPECT_EQ(one.weights[id] == two.weights[id], id == 0 || id == 3) << id;
  }
  EXPECT_TRUE(one.states == two.states);
}

TEST(ShardedOptimizer, IsTheWholeOneBitForBitOnTheCpu) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    expect_shards_are_the_whole({.dtype = dtype, .backend = one_thread});
  }
}

// The norm, clipping and zeros of the shards against numbers added up here.
TEST(ShardedOptimizer, ClipsByTheNormOfAllShards) {
  run_local_ranks(3, {}, [](Communicator& world) {
    OptimizerRank rank(uneven_table(DType::kF64),
                       {.domains = {{.rank = world.rank(), .ranks = 3}}, .bucket_size = 1},
                       {.data = {&world}}, make_ref_backend());
    set_step_gradients(rank.stores, 2);
    double squares = 0.0, zeros = 0.0;
    for (ParamId id = 0; id < rank.stores.table.size(); ++id) {
      for (const double value : values_of(rank.stores.gradients.gradient(id))) {
        squares += value * value;
        zeros += value == 0.0 ? 1.0 : 0.0;
      }
    }
    rank.step(1);
    const double average = 8.0 / 7.0 / 2.0;
    const double norm = std::sqrt(squares) * average;
    EXPECT_GT(norm, kSettings.clip_grad);
    EXPECT_NEAR(values_of(rank.optimizer.norm())[0] / norm, 1.0, 1e-13);
    EXPECT_EQ(values_of(rank.optimizer.zeros())[0], zeros);
    const double factor = average * kSettings.clip_grad / (norm + 1e-6);
    for (const Segment& segment : rank.stores.parameters.states().segments()) {
      const Values gradients = values_of(rank.stores.gradients.gradient(segment));
      const Values moments = values_of(rank.optimizer.state("exp_avg", segment));
      for (std::size_t i = 0; i < moments.size(); ++i) {
        ASSERT_NEAR(moments[i], (1.0 - kAdam.beta1) * factor * gradients[i], 1e-15);
      }
    }
  });
}

// Two tensor-parallel ranks: "cut" has a part on each, "copy" is the same on both.
nn::ParamTable cut_table(int rank) {
  const Initialiser normal{Initialiser::Kind::kNormal, 0.5};
  nn::ParamTable table;
  table.add(row_cut_parameter("cut", {4, 2}, DType::kF64, normal, rank, 2));
  table.add(whole_parameter("copy", {3}, DType::kF64, normal));
  return table;
}

void set_cut_gradients(const StoreRank& stores, int rank) {
  const Values cut[] = {{0.3, -0.4, 0.0, 1.2}, {0.5, 0.0, 0.0, -2.0}};
  const Values copy = {0.6, 0.0, -0.8};
  set_each(stores.gradients.gradient(0), [&](std::int64_t i) {
    return cut[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)];
  });
  set_each(stores.gradients.gradient(1),
           [&](std::int64_t i) { return copy[static_cast<std::size_t>(i)]; });
}

// 0.09 + 0.16 + 1.44 and 0.25 + 4 of the parts, 0.36 + 0.64 of the copy: 6.94.
const double kCutNorm = std::sqrt(6.94) * 8.0 / 7.0 / 2.0;

TEST(TensorParallelOptimizer, CountsEveryParameterOnce) {
  for (const double clip : {0.0, 0.5, 100.0}) {
    run_local_ranks(2, {}, [&](Communicator& world) {
      OptimizerSettings settings = kSettings;
      settings.clip_grad = clip;
      OptimizerRank rank(cut_table(world.rank()),
                         {.domains = {{.first_tensor_rank = world.rank() == 0}}},
                         {.model = {&world}}, make_ref_backend(), settings);
      set_cut_gradients(rank.stores, world.rank());
      rank.step(1);
      EXPECT_NEAR(values_of(rank.optimizer.norm())[0], kCutNorm, 1e-15);
      EXPECT_EQ(values_of(rank.optimizer.zeros())[0], 4.0);
      EXPECT_EQ(values_of(rank.optimizer.skip())[0], 0.0);
      const double factor = 8.0 / 7.0 / 2.0 * (clip == 0.5 ? 0.5 / (kCutNorm + 1e-6) : 1.0);
      const Values moments =
          values_of(rank.optimizer.state("exp_avg", rank.stores.parameters.states().segments()[1]));
      EXPECT_NEAR(moments[0], 0.2 * 0.6 * factor, 1e-15);
      EXPECT_EQ(moments[1], 0.0);
      EXPECT_NEAR(moments[2], -0.2 * 0.8 * factor, 1e-15);
    });
  }
}

// In a grid of two by two: shards within tensor-parallel parts.
TEST(TensorParallelOptimizer, WithShards) {
  run_local_ranks(4, {}, [&](Communicator& world) {
    const auto tensor = world.split(std::vector<std::vector<int>>{{0, 1}, {2, 3}}, "tp");
    const auto data = world.split(std::vector<std::vector<int>>{{0, 2}, {1, 3}}, "dp");
    OptimizerRank rank(
        cut_table(tensor->rank()),
        {.domains = {{.rank = data->rank(), .ranks = 2, .first_tensor_rank = tensor->rank() == 0}}},
        {.data = {data.get()}, .model = {tensor.get()}}, make_ref_backend());
    set_cut_gradients(rank.stores, tensor->rank());
    rank.step(1);
    EXPECT_NEAR(values_of(rank.optimizer.norm())[0], kCutNorm, 1e-15);
    EXPECT_EQ(values_of(rank.optimizer.zeros())[0], 4.0);
  });
}

// What is not finite on one rank keeps all from stepping.
void expect_all_skip(const OptimizerGroups& groups, const nn::ParamTable& table,
                     const StateCut& shard, bool is_bad, double bad, ParamId id) {
  OptimizerRank rank(table, shard, groups, make_ref_backend());
  set_each(rank.stores.gradients.flat(), [](std::int64_t i) { return i % 2 == 0 ? 0.1 : -0.2; });
  rank.step(1);
  EXPECT_EQ(values_of(rank.optimizer.skip())[0], 0.0);
  const auto state = [&] {
    std::vector<Values> all;
    all.push_back(values_of(rank.stores.parameters.flat()));
    for (const Segment& segment : rank.stores.parameters.states().segments()) {
      all.push_back(values_of(rank.stores.parameters.main(segment)));
      all.push_back(values_of(rank.optimizer.state("exp_avg", segment)));
      all.push_back(values_of(rank.optimizer.state("exp_avg_sq", segment)));
    }
    return all;
  };
  const auto before = state();
  if (is_bad) {
    bool found = false;
    for (const Segment& segment : rank.stores.parameters.states().segments()) {
      if (segment.id != id || found) continue;
      found = true;
      const Tensor gradient = rank.stores.gradients.gradient(segment);
      ref::store(gradient.data(), gradient.dtype, bad);
    }
    ASSERT_TRUE(found);
  }
  rank.step(2);
  EXPECT_EQ(values_of(rank.optimizer.skip())[0], 1.0);
  EXPECT_EQ(state(), before);
  ops::fill(rank.stores.context, {.x = rank.stores.gradients.flat(), .value = 0.1});
  rank.step(2);
  EXPECT_EQ(values_of(rank.optimizer.skip())[0], 0.0);
  EXPECT_NE(state(), before);
}

TEST(OptimizerOverflow, OnOneRankSkipsOnAll) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, infinity, -infinity}) {
    for (const int rank : {0, 1}) {
      run_local_ranks(2, {}, [&](Communicator& world) {
        expect_all_skip({.data = {&world}}, uneven_table(DType::kBF16),
                        {.domains = {{.rank = world.rank(), .ranks = 2}}}, world.rank() == rank,
                        bad, rank == 0 ? 3 : 0);
        expect_all_skip({.model = {&world}}, cut_table(world.rank()),
                        {.domains = {{.first_tensor_rank = world.rank() == 0}}},
                        world.rank() == rank, bad, 0);
      });
    }
  }
}

}  // namespace
}  // namespace phalanx
