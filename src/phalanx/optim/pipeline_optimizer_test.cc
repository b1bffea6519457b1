// The optimizer on the stages of a pipeline: one norm, of the whole model, with the bits of one
// rank.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/data_parallel/stages_test_support.h"
#include "phalanx/optim/test_support.h"

namespace phalanx {
namespace {

using nn::values_of;

// Ranks are numbered with the tensor-parallel rank fastest, then the data-parallel one.
struct Grid {
  StageCut cut = whole_model();
  int tensor = 1;
  int data = 1;  // shards of a distributed optimizer
  std::int64_t bucket_size = 0;

  int world_size() const { return tensor * data * cut.size(); }
  int rank(int pipeline, int d, int t) const { return (pipeline * data + d) * tensor + t; }
  // Of one copy of the model.
  std::vector<std::vector<int>> model_groups() const {
    std::vector<std::vector<int>> groups;
    for (int d = 0; d < data; ++d) {
      auto& group = groups.emplace_back();
      for (int p = 0; p < cut.size(); ++p) {
        for (int t = 0; t < tensor; ++t) group.push_back(rank(p, d, t));
      }
    }
    return groups;
  }
  std::vector<std::vector<int>> data_groups() const {
    std::vector<std::vector<int>> groups;
    for (int p = 0; p < cut.size(); ++p) {
      for (int t = 0; t < tensor; ++t) {
        auto& group = groups.emplace_back();
        for (int d = 0; d < data; ++d) group.push_back(rank(p, d, t));
      }
    }
    return groups;
  }
};

constexpr int kSteps = 4;

// Gradients by (parameter, place): of all sizes, so that the order of sums shows; some are zero,
// and the third step's are not finite.
double gradient_of(int step, const ParamSpec& spec, ParamId global, int tensor_rank,
                   std::int64_t i) {
  if (step == 3 && spec.name == "5.weight" && i == 4000) {
    return std::numeric_limits<double>::infinity();
  }
  if (i % 11 == step) return 0.0;
  const int part = spec.cut_over.has(Axis::kTensor) ? tensor_rank : 0;
  const std::int64_t stream = std::int64_t{1000} * step + std::int64_t{10} * global + part;
  return 1.1 * noise(static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(i)) /
         (1.0 + static_cast<double>(i % 1001));
}

// After the steps, by tensor-parallel rank and parameter of the model.
struct Outcome {
  std::vector<std::vector<Values>> weights, moments;
  std::vector<Values> last_copy;  // of the word table's weights, by tensor-parallel rank
  Values norms, skips, zeros;     // by step
};

void put(Values& whole, const Segment& segment, const Tensor& part) {
  std::ranges::copy(values_of(part), whole.begin() + segment.begin);
}

Outcome outcome_of(const Grid& grid) {
  Outcome outcome;
  for (int t = 0; t < grid.tensor; ++t) {
    auto& weights = outcome.weights.emplace_back();
    const StagePart model = stage_part(whole_model(), 0, {t, grid.tensor});
    for (const ParamSpec& spec : model.table.specs()) {
      weights.emplace_back(static_cast<std::size_t>(spec.local_shape.count()), -1.0);
    }
    outcome.last_copy.push_back(weights[0]);
  }
  outcome.moments = outcome.weights;
  std::vector<Outcome> scalars(static_cast<std::size_t>(grid.world_size()));
  run_local_ranks(grid.world_size(), {}, [&](Communicator& world) {
    const auto model = world.split(grid.model_groups(), "mp");
    const auto data = world.split(grid.data_groups(), "dp");
    const TensorPart tensor{world.rank() % grid.tensor, grid.tensor};
    const int stage_rank = world.rank() / (grid.tensor * grid.data);
    const StagePart part = stage_part(grid.cut, stage_rank, tensor);
    OptimizerRank rank(part.table, places_of(part, grid.cut, stage_rank, tensor),
                       {.domains = {{.rank = data->rank(),
                                     .ranks = grid.data,
                                     .first_tensor_rank = tensor.rank == 0}},
                        .bucket_size = grid.bucket_size},
                       {.data = {grid.data > 1 ? data.get() : nullptr},
                        .model = {model->size() > 1 ? model.get() : nullptr}},
                       make_ref_backend());
    const std::vector<ParamId>& global = rank.stores.parameters.states().places().global;
    Outcome& mine = scalars[static_cast<std::size_t>(world.rank())];
    for (int step = 1; step <= kSteps; ++step) {
      for (ParamId id = 0; id < part.table.size(); ++id) {
        set_each(rank.stores.gradients.gradient(id), [&](std::int64_t i) {
          return gradient_of(step, part.table[id], global[static_cast<std::size_t>(id)],
                             tensor.rank, i);
        });
      }
      rank.step(step);
      mine.norms.push_back(values_of(rank.optimizer.norm())[0]);
      mine.skips.push_back(values_of(rank.optimizer.skip())[0]);
      mine.zeros.push_back(values_of(rank.optimizer.zeros())[0]);
    }
    const auto t = static_cast<std::size_t>(tensor.rank);
    for (const Segment& segment : rank.stores.parameters.states().segments()) {
      const Tensor weight = rank.stores.parameters.weight(segment);
      if (is_uncounted(rank.stores.parameters.states().places(), segment.id)) {
        put(outcome.last_copy[t], segment, weight);
        continue;
      }
      const auto number = static_cast<std::size_t>(global[static_cast<std::size_t>(segment.id)]);
      put(outcome.weights[t][number], segment, weight);
      put(outcome.moments[t][number], segment, rank.optimizer.state("exp_avg_sq", segment));
    }
  });
  outcome.norms = scalars[0].norms;
  outcome.skips = scalars[0].skips;
  outcome.zeros = scalars[0].zeros;
  for (const Outcome& rank : scalars) {
    for (std::size_t step = 0; step < kSteps; ++step) {
      const bool same = rank.norms[step] == outcome.norms[step] ||
                        (std::isinf(rank.norms[step]) && std::isinf(outcome.norms[step]));
      EXPECT_TRUE(same) << rank.norms[step] << " and " << outcome.norms[step];
    }
    EXPECT_EQ(rank.skips, outcome.skips);
    EXPECT_EQ(rank.zeros, outcome.zeros);
  }
  return outcome;
}

void expect_same(const Outcome& actual, const Outcome& expected) {
  EXPECT_EQ(actual.norms, expected.norms);
  EXPECT_EQ(actual.skips, expected.skips);
  EXPECT_EQ(actual.zeros, expected.zeros);
  EXPECT_TRUE(actual.weights == expected.weights);
  EXPECT_TRUE(actual.moments == expected.moments);
}

// The norm of the first step and its zeros, added up here.
TEST(PipelineOptimizer, CountsEveryParameterOnce) {
  double squares = 0.0, zeros = 0.0;
  const StagePart model = stage_part(whole_model(), 0);
  for (ParamId id = 0; id < model.table.size(); ++id) {
    for (std::int64_t i = 0; i < model.table[id].local_shape.count(); ++i) {
      const double value = gradient_of(1, model.table[id], id, 0, i);
      squares += value * value;
      zeros += value == 0.0 ? 1.0 : 0.0;
    }
  }
  for (const StageCut& cut : {whole_model(), contiguous_cut(2), v_cut(2)}) {
    const Outcome outcome = outcome_of({.cut = cut});
    EXPECT_NEAR(outcome.norms[0] / (std::sqrt(squares) * 8.0 / 7.0 / 2.0), 1.0, 1e-12) << cut.name;
    EXPECT_EQ(outcome.zeros[0], zeros) << cut.name;
    EXPECT_EQ(outcome.skips, (Values{0, 0, 1, 0})) << cut.name;
  }
}

TEST(PipelineOptimizer, HasTheBitsOfOneRank) {
  for (const int tensor : {1, 2}) {
    const Outcome expected = outcome_of({.tensor = tensor});
    for (const StageCut& cut : all_cuts()) {
      for (const int data : {1, 2}) {
        for (const std::int64_t size : {0, 1, 20000}) {
          if (data == 1 && size > 0) continue;
          SCOPED_TRACE(fmt::format("{}, {} tensor-parallel ranks, {} shards, buckets of {}",
                                   cut.name, tensor, data, size));
          const Outcome actual = outcome_of({cut, tensor, data, size});
          expect_same(actual, expected);
          // The two copies of the word table, cut into shards each in its way, stay one.
          const bool has_copies = cut.of(0).back() != cut.stages - 1;
          for (std::size_t t = 0; has_copies && t < actual.last_copy.size(); ++t) {
            EXPECT_TRUE(actual.last_copy[t] == expected.weights[t][0]);
          }
        }
      }
    }
  }
}

TEST(PipelineOptimizer, NeedsTheOtherStages) {
  const StagePart part = stage_part(contiguous_cut(2), 0);
  EXPECT_THROW(
      OptimizerRank(part.table, places_of(part, contiguous_cut(2), 0), {}, {}, make_ref_backend()),
      InternalError);
}

// Of a pipeline whose stages update at different times; whatever was in memory before.
TEST(PipelineOptimizer, AStageAloneHasItsOwnNorm) {
  const StageCut cut = contiguous_cut(2);
  const StagePart part = stage_part(cut, 1);
  const StoreRank stores(part.table, places_of(part, cut, 1));
  Arena memory("optimizer", 8 << 20);
  std::memset(memory.base(), 0xff, static_cast<std::size_t>(memory.capacity()));
  const Optimizer optimizer(stores.parameters, stores.gradients, kSettings,
                            {.is_stage_alone = true}, memory, memory);
  Arena workspace("workspace", 1 << 20);
  Context context{
      .backend = *stores.backend, .workspace = workspace, .queue = {}, .recorder = nullptr};
  optimizer.initialise(context);
  stores.set_gradients(1);
  double squares = 0.0;
  for (ParamId id = 0; id < part.table.size(); ++id) {
    if (is_uncounted(stores.parameters.states().places(), id)) continue;
    for (const double value : values_of(stores.gradients.gradient(id))) squares += value * value;
  }
  const Tensor loss_scale = memory.allocate(DType::kF64, {1});
  ops::fill(context, {.x = loss_scale, .value = 1.0});
  optimizer.step(context, {.lr = 0.01,
                           .weight_decay = 0.1,
                           .step = 1,
                           .tokens = {},
                           .expected_tokens = 1.0,
                           .loss_scale = loss_scale});
  EXPECT_NEAR(values_of(optimizer.norm())[0], std::sqrt(squares), 1e-9 * std::sqrt(squares));
  EXPECT_EQ(values_of(optimizer.skip()), Values{0.0});
}

}  // namespace
}  // namespace phalanx
