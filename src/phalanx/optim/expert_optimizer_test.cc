// The optimizer with parameters of two reduction domains: experts lie on a grid of their own, and
// everything is counted, cut and updated once.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/mesh/parallel_grids.h"
#include "phalanx/optim/test_support.h"

namespace phalanx {
namespace {

using nn::values_of;

constexpr int kExperts = 4;
constexpr int kSteps = 3;

// A dense matrix and a vector, and experts with a matrix that is cut and a bias that is not.
// `first` and `count`: the experts of this rank.
nn::ParamTable table_of(int tensor, int tensor_size, int expert_tensor, int expert_tensor_size,
                        int first, int count) {
  nn::ParamTable table;
  table.add(row_cut_parameter("dense", {96, 70}, DType::kF32, {}, tensor, tensor_size));
  for (int i = first; i < first + count; ++i) {
    ParamSpec weight = column_cut_parameter(fmt::format("{}.weight", i), {50, 120}, DType::kF32, {},
                                            expert_tensor, expert_tensor_size);
    ParamSpec bias = whole_parameter(fmt::format("{}.bias", i), {301}, DType::kF32, {});
    weight.domain = bias.domain = ReductionDomain::kExpert;
    table.add(weight);
    table.add(bias);
  }
  table.add(whole_parameter("norm", {130}, DType::kF32, {}));
  return table;
}

// By element of the global tensor; some are zero.
double gradient_of(int step, const std::string& name, std::int64_t element) {
  if (element % 11 == step) return 0.0;
  const auto stream = static_cast<std::uint64_t>(1000 * step + 10 * name[0] + name.back() % 7);
  return noise(stream, static_cast<std::uint64_t>(element)) /
         (1.0 + static_cast<double>(element % 1001));
}

// fn(local, global) of each element.
template <typename Fn>
void for_each_element(const ParamSpec& spec, Fn&& fn) {
  for (const ParamBox& box : spec.boxes) {
    for (std::int64_t r = 0; r < box.rows; ++r) {
      for (std::int64_t c = 0; c < box.columns; ++c) {
        fn((box.local_row + r) * matrix_columns(spec.local_shape) + box.local_column + c,
           (box.global_row + r) * matrix_columns(spec.global_shape) + box.global_column + c);
      }
    }
  }
}

using Weights = std::map<std::string, std::map<std::int64_t, double>>;  // by global element

struct Outcome {
  Values norms, zeros, parameter_squares;  // by step; the squares of the first one
  Weights weights;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

DomainCut cut_of(const Communicator* data, bool is_sharded, bool is_first) {
  DomainCut cut{.first_tensor_rank = is_first};
  if (data == nullptr) return cut;
  (is_sharded ? cut.rank : cut.replica) = data->rank();
  (is_sharded ? cut.ranks : cut.replicas) = data->size();
  return cut;
}

Outcome outcome_of(const ParallelSizes& sizes, bool is_sharded, std::int64_t bucket_size = 0) {
  const ParallelGrids grids = parallel_grids(sizes, kDefaultOrder);
  Outcome outcome;
  std::mutex mutex;
  run_local_ranks(grids.world_size(), {}, [&](Communicator& world) {
    const auto split = [&](const RankGrid& grid, std::string_view axes) {
      auto group = world.split(grid.groups(axes), std::string(axes));
      if (group->size() == 1) group.reset();
      return group;
    };
    const auto data = split(grids.dense, "dp-cp");
    const auto model = split(grids.dense, "tp-pp");
    const auto expert_data = split(*grids.expert, "dp");
    const auto expert_model = split(*grids.expert, "tp-ep-pp");
    const GridCoordinates at = grids.coordinates(world.rank());
    const GridCoordinates of_experts = grids.expert_coordinates(world.rank());
    const GridSizes expert_sizes = grids.expert_sizes();
    const int count = kExperts / expert_sizes.expert;
    const auto table = [&](int first, int experts) {
      return table_of(at.tensor, grids.dense.sizes().tensor, of_experts.tensor, expert_sizes.tensor,
                      first, experts);
    };
    const nn::ParamTable part = table(of_experts.expert * count, count);
    const nn::ParamTable whole = table(0, kExperts);
    OptimizerGroups groups{.model = {model.get(), expert_model.get()}};
    if (is_sharded) groups.data = {data.get(), expert_data.get()};
    OptimizerRank rank(
        part, model_places(part, whole),
        {.domains = {.dense = cut_of(data.get(), is_sharded, at.tensor == 0),
                     .expert = cut_of(expert_data.get(), is_sharded, of_experts.tensor == 0)},
         .bucket_size = bucket_size},
        groups, make_ref_backend());
    Outcome mine;
    mine.parameter_squares = values_of(rank.optimizer.parameter_squares(rank.stores.context));
    for (int step = 1; step <= kSteps; ++step) {
      for (ParamId id = 0; id < part.size(); ++id) {
        std::vector<double> gradient(static_cast<std::size_t>(part[id].local_shape.count()));
        for_each_element(part[id], [&](std::int64_t local, std::int64_t global) {
          gradient[static_cast<std::size_t>(local)] = gradient_of(step, part[id].name, global);
        });
        set_each(rank.stores.gradients.gradient(id),
                 [&](std::int64_t i) { return gradient[static_cast<std::size_t>(i)]; });
      }
      rank.step(step);
      mine.norms.push_back(values_of(rank.optimizer.norm())[0]);
      mine.zeros.push_back(values_of(rank.optimizer.zeros())[0]);
    }
    const std::lock_guard lock(mutex);
    if (!outcome.norms.empty()) {
      EXPECT_EQ(mine.norms, outcome.norms);
      EXPECT_EQ(mine.zeros, outcome.zeros);
    }
    outcome.norms = mine.norms;
    outcome.zeros = mine.zeros;
    outcome.parameter_squares = mine.parameter_squares;
    for (const Segment& segment : rank.stores.parameters.states().segments()) {
      const Values values = values_of(rank.stores.parameters.weight(segment));
      const ParamSpec& spec = part[segment.id];
      for_each_element(spec, [&](std::int64_t local, std::int64_t global) {
        const std::int64_t i = local - segment.begin;
        if (i < 0 || i >= segment.count) return;
        const double value = values[static_cast<std::size_t>(i)];
        const auto [known, is_new] = outcome.weights[spec.name].try_emplace(global, value);
        if (!is_new && known->second != value) ADD_FAILURE() << spec.name << " " << global;
      });
    }
  });
  return outcome;
}

TEST(ExpertOptimizer, CountsEveryParameterOnce) {
  double squares = 0.0, zeros = 0.0;
  const nn::ParamTable whole = table_of(0, 1, 0, 1, 0, kExperts);
  for (const ParamSpec& spec : whole.specs()) {
    for (std::int64_t i = 0; i < spec.global_shape.count(); ++i) {
      const double value = gradient_of(1, spec.name, i);
      squares += value * value;
      zeros += value == 0.0 ? 1.0 : 0.0;
    }
  }
  for (const bool is_sharded : {false, true}) {
    for (const ParallelSizes& sizes :
         {ParallelSizes{.world = 4, .tensor = 2, .expert = 2, .expert_tensor = 1},
          ParallelSizes{.world = 4, .tensor = 1, .expert = 1, .expert_tensor = 2},
          ParallelSizes{.world = 8, .tensor = 2, .expert = 2, .expert_tensor = 2},
          ParallelSizes{.world = 4, .tensor = 4, .expert = 4, .expert_tensor = 1}}) {
      SCOPED_TRACE(fmt::format("{} ranks, t {} e {} etp {}, sharded {}", sizes.world, sizes.tensor,
                               sizes.expert, sizes.expert_tensor, is_sharded));
      const Outcome outcome = outcome_of(sizes, is_sharded);
      EXPECT_NEAR(outcome.norms[0] / (std::sqrt(squares) * 8.0 / 7.0 / 2.0), 1.0, 1e-6);
      EXPECT_EQ(outcome.zeros[0], zeros);
      EXPECT_EQ(outcome.weights.size(), whole.specs().size());
      for (const ParamSpec& spec : whole.specs()) {
        EXPECT_EQ(std::ssize(outcome.weights.at(spec.name)), spec.global_shape.count());
      }
    }
  }
}

// Sums have one order for any number of experts of a rank and of data-parallel ranks.
TEST(ExpertOptimizer, HasTheSameBitsHoweverExpertsAreSharedOut) {
  for (const int tensor : {1, 2}) {
    const int expert_tensor = 3 - tensor;  // so that there is a grid of experts
    const Outcome expected = outcome_of(
        {.world = 2, .tensor = tensor, .expert = 1, .expert_tensor = expert_tensor}, false);
    for (const int expert : {1, 2}) {
      for (const bool is_sharded : {false, true}) {
        for (const std::int64_t bucket_size : {0, 1}) {
          SCOPED_TRACE(fmt::format("t {} e {} sharded {} buckets of {}", tensor, expert, is_sharded,
                                   bucket_size));
          EXPECT_TRUE(
              outcome_of(
                  {.world = 8, .tensor = tensor, .expert = expert, .expert_tensor = expert_tensor},
                  is_sharded, bucket_size) == expected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace phalanx
