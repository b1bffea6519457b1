#include "phalanx/mesh/parallel_grids.h"

#include <array>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// No cluster comes near it; a mistyped size should not fill the memory with groups.
constexpr std::int64_t kMaxWorld = std::int64_t{1} << 20;

constexpr std::string_view kWorldFlag = "--world-size";
constexpr std::string_view kTensorFlag = "--tensor-model-parallel-size";
constexpr std::string_view kPipelineFlag = "--pipeline-model-parallel-size";
constexpr std::string_view kContextFlag = "--context-parallel-size";
constexpr std::string_view kExpertFlag = "--expert-model-parallel-size";
constexpr std::string_view kExpertTensorFlag = "--expert-tensor-parallel-size";

struct Factor {
  std::string_view flag;
  std::int64_t size;
};

// What the factors leave of the world.
int data_parallel_size(std::int64_t world, const std::array<Factor, 3>& factors) {
  std::int64_t rest = world;
  for (const Factor& factor : factors) {
    if (rest % factor.size == 0) {
      rest /= factor.size;
      continue;
    }
    throw ConfigError("{} {} is not a multiple of {} {} x {} {} x {} {}", kWorldFlag, world,
                      factors[0].flag, factors[0].size, factors[1].flag, factors[1].size,
                      factors[2].flag, factors[2].size);
  }
  return static_cast<int>(rest);
}

void check_range(const ParallelSizes& sizes) {
  const std::array<Factor, 6> all = {{{kWorldFlag, sizes.world},
                                      {kTensorFlag, sizes.tensor},
                                      {kPipelineFlag, sizes.pipeline},
                                      {kContextFlag, sizes.context},
                                      {kExpertFlag, sizes.expert},
                                      {kExpertTensorFlag, sizes.expert_tensor}}};
  for (const Factor& factor : all) {
    const bool may_be_zero = factor.flag == kExpertTensorFlag;
    if (factor.size < (may_be_zero ? 0 : 1)) {
      throw ConfigError("{} {}: must be at least 1", factor.flag, factor.size);
    }
  }
  if (sizes.world > kMaxWorld) {
    throw ConfigError("{} {}: at most {} ranks", kWorldFlag, sizes.world, kMaxWorld);
  }
}

}  // namespace

ParallelGrids parallel_grids(const ParallelSizes& sizes, std::string_view order) {
  check_range(sizes);
  const int data = data_parallel_size(sizes.world, {{{kTensorFlag, sizes.tensor},
                                                     {kPipelineFlag, sizes.pipeline},
                                                     {kContextFlag, sizes.context}}});
  const int pipeline = static_cast<int>(sizes.pipeline);
  ParallelGrids grids{.dense = RankGrid({.tensor = static_cast<int>(sizes.tensor),
                                         .context = static_cast<int>(sizes.context),
                                         .data = data,
                                         .pipeline = pipeline},
                                        order),
                      .expert = std::nullopt};
  if (sizes.expert == 1 && sizes.expert_tensor == 0) return grids;

  const std::int64_t expert_tensor = sizes.expert_tensor > 0 ? sizes.expert_tensor : sizes.tensor;
  const int expert_data = data_parallel_size(sizes.world, {{{kExpertTensorFlag, expert_tensor},
                                                            {kExpertFlag, sizes.expert},
                                                            {kPipelineFlag, sizes.pipeline}}});
  grids.expert.emplace(GridSizes{.tensor = static_cast<int>(expert_tensor),
                                 .expert = static_cast<int>(sizes.expert),
                                 .data = expert_data,
                                 .pipeline = pipeline},
                       order);
  if (grids.expert->groups("pp") != grids.dense.groups("pp")) {
    throw ConfigError(
        "rank order {}: the pipelines of dense layers (tp {} cp {} dp {}) and of experts (tp {} ep "
        "{} dp {}) would differ; choose an order that ends with pp",
        order, sizes.tensor, sizes.context, data, expert_tensor, sizes.expert, expert_data);
  }
  return grids;
}

std::vector<GroupFamily> group_families(const ParallelGrids& grids) {
  const RankGrid& dense = grids.dense;
  std::vector<GroupFamily> families = {
      {"tp", "tensor parallel", dense.groups("tp")},
      {"cp", "context parallel", dense.groups("cp")},
      {"dp", "data parallel", dense.groups("dp")},
      {"pp", "pipeline parallel", dense.groups("pp")},
      {"mp", "model parallel, tensor x pipeline", dense.groups("tp-pp")},
      {"tp-dp", "tensor x data", dense.groups("tp-dp")},
      {"tp-cp", "tensor x context", dense.groups("tp-cp")},
      {"dp-cp", "data x context, which reduces gradients", dense.groups("dp-cp")},
      {"embd", "first and last stages, which share the word embedding", dense.embedding_groups()},
      {"pos_embd", "first stages, which hold the position embedding",
       dense.position_embedding_groups()}};
  if (!grids.expert) return families;
  const RankGrid& expert = *grids.expert;
  families.push_back({"ep", "expert parallel", expert.groups("ep")});
  families.push_back({"etp", "expert tensor parallel", expert.groups("tp")});
  families.push_back({"tp-ep", "expert tensor x expert", expert.groups("tp-ep")});
  families.push_back({"tp-ep-pp", "expert tensor x expert x pipeline", expert.groups("tp-ep-pp")});
  families.push_back(
      {"edp", "expert data parallel, which reduces experts' gradients", expert.groups("dp")});
  return families;
}

}  // namespace phalanx
