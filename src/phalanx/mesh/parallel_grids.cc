#include "phalanx/mesh/parallel_grids.h"

#include <array>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// More ranks than any cluster has: a mistyped size must not fill the memory with groups.
constexpr std::int64_t kMaxWorld = std::int64_t{1} << 20;

constexpr std::string_view kWorldFlag = "--world-size";
constexpr std::string_view kTensorFlag = "--tensor-model-parallel-size";
constexpr std::string_view kPipelineFlag = "--pipeline-model-parallel-size";
constexpr std::string_view kContextFlag = "--context-parallel-size";
constexpr std::string_view kExpertFlag = "--expert-model-parallel-size";
constexpr std::string_view kExpertTensorFlag = "--expert-tensor-parallel-size";
constexpr std::string_view kSplitFlag = "--pipeline-model-parallel-split-rank";
constexpr std::string_view kEncoderPipelineFlag = "--encoder-pipeline-model-parallel-size";
constexpr std::string_view kEncoderTensorFlag = "--encoder-tensor-model-parallel-size";

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
  const auto check = [](const Factor& factor, std::int64_t least) {
    if (factor.size >= least) return;
    throw ConfigError("{} {}: must be at least {}", factor.flag, factor.size, least);
  };
  for (const Factor& factor : {Factor{kWorldFlag, sizes.world},
                               {kTensorFlag, sizes.tensor},
                               {kPipelineFlag, sizes.pipeline},
                               {kContextFlag, sizes.context},
                               {kExpertFlag, sizes.expert}}) {
    check(factor, 1);
  }
  for (const Factor& factor : {Factor{kExpertTensorFlag, sizes.expert_tensor},
                               {kSplitFlag, sizes.split_rank},
                               {kEncoderPipelineFlag, sizes.encoder_pipeline},
                               {kEncoderTensorFlag, sizes.encoder_tensor}}) {
    check(factor, 0);
  }
  if (sizes.world > kMaxWorld) {
    throw ConfigError("{} {}: at most {} ranks", kWorldFlag, sizes.world, kMaxWorld);
  }
}

bool has_experts(const ParallelSizes& sizes) {
  return sizes.expert != 1 || sizes.expert_tensor != 0;
}

void check_encoder(const ParallelSizes& sizes) {
  if (sizes.split_rank >= sizes.pipeline && sizes.split_rank > 0) {
    throw ConfigError("{} {}: must be below {} {}", kSplitFlag, sizes.split_rank, kPipelineFlag,
                      sizes.pipeline);
  }
  if (sizes.encoder_tensor > sizes.tensor) {
    throw ConfigError("{} {}: must be at most {} {}", kEncoderTensorFlag, sizes.encoder_tensor,
                      kTensorFlag, sizes.tensor);
  }
  if (sizes.encoder_pipeline == 0) {
    if (sizes.encoder_tensor == 0 || sizes.encoder_tensor == sizes.tensor) return;
    throw ConfigError(
        "{} {}: an encoder without ranks of its own shares the decoder's, {} {}; give {} at least "
        "1",
        kEncoderTensorFlag, sizes.encoder_tensor, kTensorFlag, sizes.tensor, kEncoderPipelineFlag);
  }
  if (sizes.split_rank > 0) {
    throw ConfigError("{} and {} exclude each other: give one", kEncoderPipelineFlag, kSplitFlag);
  }
  if (has_experts(sizes)) {
    throw ConfigError("{} {} and experts exclude each other: an encoder has none",
                      kEncoderPipelineFlag, sizes.encoder_pipeline);
  }
}

// What both grids leave of the world: world = dp x cp x (etp x epp + tp x pp).
ParallelGrids grids_with_encoder(const ParallelSizes& sizes, std::string_view order) {
  const std::int64_t tensor = sizes.encoder_tensor > 0 ? sizes.encoder_tensor : sizes.tensor;
  // No product of two sizes that are within the world leaves 64 bits.
  for (const Factor& factor : {Factor{kTensorFlag, sizes.tensor},
                               {kPipelineFlag, sizes.pipeline},
                               {kContextFlag, sizes.context},
                               {kEncoderPipelineFlag, sizes.encoder_pipeline}}) {
    if (factor.size <= sizes.world) continue;
    throw ConfigError("{} {} is above {} {}", factor.flag, factor.size, kWorldFlag, sizes.world);
  }
  const std::int64_t replica = tensor * sizes.encoder_pipeline + sizes.tensor * sizes.pipeline;
  if (sizes.world % replica != 0 || sizes.world / replica % sizes.context != 0) {
    throw ConfigError("{} {} is not a multiple of ({} {} x {} {} + {} {} x {} {}) x {} {}",
                      kWorldFlag, sizes.world, kEncoderTensorFlag, tensor, kEncoderPipelineFlag,
                      sizes.encoder_pipeline, kTensorFlag, sizes.tensor, kPipelineFlag,
                      sizes.pipeline, kContextFlag, sizes.context);
  }
  const auto grid = [&](std::int64_t tensor_size, std::int64_t pipeline_size) {
    return RankGrid({.tensor = static_cast<int>(tensor_size),
                     .context = static_cast<int>(sizes.context),
                     .data = static_cast<int>(sizes.world / replica / sizes.context),
                     .pipeline = static_cast<int>(pipeline_size)},
                    order);
  };
  return {.dense = grid(sizes.tensor, sizes.pipeline),
          .expert = std::nullopt,
          .encoder = grid(tensor, sizes.encoder_pipeline),
          .split = static_cast<int>(sizes.encoder_pipeline)};
}

RankGroups shifted(RankGroups groups, int ranks) {
  for (auto& group : groups) {
    for (int& rank : group) rank += ranks;
  }
  return groups;
}

// Of both grids, the encoder's first.
RankGroups groups_of_both(const ParallelGrids& grids, std::string_view axes) {
  if (!grids.encoder) return grids.dense.groups(axes);
  RankGroups all = grids.encoder->groups(axes);
  for (auto& group : shifted(grids.dense.groups(axes), grids.encoder_ranks())) {
    all.push_back(std::move(group));
  }
  return all;
}

// Joins each of the decoder's groups to one of the encoder's, which are used again where they are
// fewer: so Megatron-LM joins pipelines, and the groups of a copy of the model.
RankGroups groups_across(const ParallelGrids& grids, std::string_view axes) {
  if (!grids.encoder) return grids.dense.groups(axes);
  const RankGroups front = grids.encoder->groups(axes);
  RankGroups all;
  for (const auto& back : shifted(grids.dense.groups(axes), grids.encoder_ranks())) {
    all.push_back(front[all.size() % front.size()]);
    all.back().insert(all.back().end(), back.begin(), back.end());
  }
  return all;
}

RankGroups ends_of(RankGroups pipelines,
                   std::vector<int> (*group)(const std::vector<int>& pipeline, int split),
                   int split) {
  for (auto& pipeline : pipelines) pipeline = group(pipeline, split);
  return pipelines;
}

}  // namespace

ParallelGrids parallel_grids(const ParallelSizes& sizes, std::string_view order) {
  check_range(sizes);
  check_encoder(sizes);
  if (sizes.encoder_pipeline > 0) return grids_with_encoder(sizes, order);
  const int data = data_parallel_size(sizes.world, {{{kTensorFlag, sizes.tensor},
                                                     {kPipelineFlag, sizes.pipeline},
                                                     {kContextFlag, sizes.context}}});
  const int pipeline = static_cast<int>(sizes.pipeline);
  ParallelGrids grids{.dense = RankGrid({.tensor = static_cast<int>(sizes.tensor),
                                         .context = static_cast<int>(sizes.context),
                                         .data = data,
                                         .pipeline = pipeline},
                                        order),
                      .expert = std::nullopt,
                      .encoder = std::nullopt,
                      .split = static_cast<int>(sizes.split_rank)};
  if (!has_experts(sizes)) return grids;

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

GridCoordinates ParallelGrids::coordinates(int rank) const {
  if (rank < encoder_ranks()) return encoder->coordinates(rank);
  GridCoordinates at = dense.coordinates(rank - encoder_ranks());
  if (encoder) at.pipeline += split;
  return at;
}

GridCoordinates ParallelGrids::expert_coordinates(int rank) const {
  if (expert) return expert->coordinates(rank);
  const GridCoordinates at = coordinates(rank);
  return {.tensor = at.tensor,
          .data = at.context + dense.sizes().context * at.data,
          .pipeline = at.pipeline};
}

GridSizes ParallelGrids::expert_sizes() const {
  if (expert) return expert->sizes();
  const GridSizes& sizes = dense.sizes();
  return {.tensor = sizes.tensor, .data = sizes.context * sizes.data, .pipeline = sizes.pipeline};
}

PlaceInModel place_in_model(const ParallelGrids& grids, int rank) {
  const GridCoordinates at = grids.coordinates(rank);
  const GridCoordinates of_experts = grids.expert_coordinates(rank);
  return {.stage = at.pipeline,
          .tensor = at.tensor,
          .expert = of_experts.expert,
          .expert_tensor = of_experts.tensor};
}

std::vector<EncoderOutput> encoder_outputs(const ParallelGrids& grids) {
  std::vector<EncoderOutput> outputs;
  if (!grids.encoder) return outputs;
  const RankGrid& encoder = *grids.encoder;
  const int encoder_tensor = encoder.sizes().tensor;
  const int tensor = grids.dense.sizes().tensor;
  for (int rank = 0; rank < encoder.world_size(); ++rank) {
    GridCoordinates at = encoder.coordinates(rank);
    if (at.pipeline != encoder.sizes().pipeline - 1) continue;
    EncoderOutput output{.from = rank, .to = {}, .gradient_from = 0};
    GridCoordinates reader = at;
    reader.pipeline = 0;
    for (reader.tensor = 0; reader.tensor < tensor; ++reader.tensor) {
      if (std::int64_t{reader.tensor} * encoder_tensor / tensor != at.tensor) continue;
      output.to.push_back(encoder.world_size() + grids.dense.rank_of(reader));
    }
    output.gradient_from = output.to.front();
    outputs.push_back(std::move(output));
  }
  return outputs;
}

std::vector<GroupFamily> group_families(const ParallelGrids& grids) {
  const RankGroups pipelines = groups_across(grids, "pp");
  const bool is_split = grids.split > 0;
  std::vector<GroupFamily> families = {
      {"tp", "tensor parallel", groups_of_both(grids, "tp")},
      {"cp", "context parallel", groups_of_both(grids, "cp")},
      {"dp", "data parallel", groups_of_both(grids, "dp")},
      {"pp", "pipeline parallel", pipelines},
      {"mp", "model parallel, tensor x pipeline", groups_across(grids, "tp-pp")},
      {"tp-dp", "tensor x data", groups_of_both(grids, "tp-dp")},
      {"tp-cp", "tensor x context", groups_of_both(grids, "tp-cp")},
      {"dp-cp", "data x context, which reduces gradients", groups_of_both(grids, "dp-cp")},
      {"embd",
       is_split ? "first stages of both stacks and the last, which share the word embedding"
                : "first and last stages, which share the word embedding",
       ends_of(pipelines, embedding_group, grids.split)},
      {"pos_embd",
       is_split ? "first stages of both stacks, which share the position embedding"
                : "first stages, which hold the position embedding",
       ends_of(pipelines, position_embedding_group, grids.split)}};
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
