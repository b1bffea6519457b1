// The part of resolve() that is about pipelines.

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr const char* kDefaultSchedule = "1f1b";

// The number of chunks of a rank, if a flag says it.
void resolve_virtual_stages(TrainConfig& c) {
  const std::int64_t ranks = c.layout.pipeline_model_parallel_size;
  const std::int64_t layers = c.layout.num_layers_per_virtual_pipeline_stage;
  if (layers == 0) return;
  if (c.model.num_layers % (ranks * layers) != 0) {
    throw ConfigError(
        "--num-layers {} is not a multiple of --pipeline-model-parallel-size {} x "
        "--num-layers-per-virtual-pipeline-stage {}",
        c.model.num_layers, ranks, layers);
  }
  const std::int64_t stages = c.model.num_layers / (ranks * layers);
  std::int64_t& given = c.layout.num_virtual_stages_per_pipeline_rank;
  if (given != 0 && given != stages) {
    throw ConfigError(
        "--num-layers-per-virtual-pipeline-stage {} makes {} virtual stages of a rank, "
        "--num-virtual-stages-per-pipeline-rank says {}: give one",
        layers, stages, given);
  }
  given = stages;
}

// Refuses what cannot be combined with stale weights.
void refuse_with_stale_weights(const TrainConfig& c) {
  const auto refuse = [&](bool is_given, std::string_view flag, std::string_view reason) {
    if (!is_given) return;
    throw ConfigError("--pipeline-schedule {} and {} exclude each other: {}",
                      c.layout.pipeline_schedule, flag, reason);
  };
  refuse(c.optimizer.clip_grad > 0.0, "--clip-grad above 0",
         "stages update at different times, so there is no norm of the whole gradient; give "
         "--clip-grad 0");
  refuse(c.model.fp16, "--fp16", "stages cannot skip a step together; use --bf16");
  refuse(c.optimizer.loss_scale.has_value(), "--loss-scale",
         "stages cannot skip a step together; leave it out");
  refuse(c.layout.use_distributed_optimizer, "--use-distributed-optimizer",
         "other versions of the weights are whole on every rank");
  refuse(c.optimizer.log_num_zeros_in_grad, "--log-num-zeros-in-grad",
         "stages update at different times, so there is no moment to count at");
  refuse(c.run.no_check_for_nan_in_loss_and_grad, "--no-check-for-nan-in-loss-and-grad",
         "stages cannot skip a step together; leave it out");
  refuse(!c.run.iterations_to_skip.empty(), "--iterations-to-skip",
         "several iterations are run together; begin from a checkpoint instead");
  refuse(!c.model.untie_embeddings_and_output_weights, "a tied embedding",
         "its two copies would be of different versions; add "
         "--untie-embeddings-and-output-weights");
}

void check_stage_layers(const TrainConfig& c, const Placement& placement) {
  const std::vector<std::int64_t> layers = stage_layers(c, placement);
  const bool all_placed =
      std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == c.model.num_layers;
  const int alone = c.layout.standalone_embedding_stage ? 1 : 0;
  if (all_placed &&
      std::ranges::min(std::span(layers).subspan(static_cast<std::size_t>(alone))) > 0)
    return;
  throw ConfigError(
      "--num-layers {} cannot be shared out over {} ranks with {} stages each, with "
      "--decoder-first-pipeline-num-layers {} and --decoder-last-pipeline-num-layers {} (0: not "
      "given): all stages of a rank must have the same number of layers, at least 1, and the other "
      "ranks must all have the same",
      c.model.num_layers, placement.ranks(), placement.chunks(),
      c.layout.decoder_first_pipeline_num_layers, c.layout.decoder_last_pipeline_num_layers);
}

void check_standalone_embedding(const TrainConfig& c, const Placement& placement) {
  if (!c.layout.standalone_embedding_stage) return;
  if (placement.chunks() > 1) {
    throw ConfigError(
        "--standalone-embedding-stage needs one stage on every rank: a further one of the first "
        "rank would have neither the embedding nor a layer");
  }
  if (c.layout.decoder_first_pipeline_num_layers > 0) {
    throw ConfigError(
        "--standalone-embedding-stage and --decoder-first-pipeline-num-layers {} exclude each "
        "other: give one",
        c.layout.decoder_first_pipeline_num_layers);
  }
}

// Checks a model of one stack: the schedule's stages must get layers.
void check_stack(const TrainConfig& c, const Placement& placement) {
  check_standalone_embedding(c, placement);
  const int alone = c.layout.standalone_embedding_stage ? 1 : 0;
  if (c.model.num_layers < placement.stages() - alone) {
    throw ConfigError("--num-layers {} is less than the {} stages of the pipeline: {} ranks x {}",
                      c.model.num_layers, placement.stages() - alone, placement.ranks(),
                      placement.chunks());
  }
  check_stage_layers(c, placement);
}

// An encoder and a decoder: a stage on every rank.
void resolve_split_pipeline(TrainConfig& c) {
  LayoutConfig& l = c.layout;
  if (l.num_layers_per_virtual_pipeline_stage > 0 || l.num_virtual_stages_per_pipeline_rank > 1) {
    throw ConfigError(
        "a pipeline of an encoder and a decoder has one stage on every rank: leave out "
        "--num-layers-per-virtual-pipeline-stage and --num-virtual-stages-per-pipeline-rank");
  }
  if (l.microbatch_group_size_per_virtual_pipeline_stage > 0) {
    throw ConfigError(
        "--microbatch-group-size-per-virtual-pipeline-stage goes with several stages of a rank, "
        "which a pipeline of an encoder and a decoder has not");
  }
  if (l.pipeline_schedule.empty()) l.pipeline_schedule = kDefaultSchedule;
  check_split(schedule_kind(l.pipeline_schedule));
  const Placement placement =
      schedule_kind(l.pipeline_schedule).placement(schedule_request(l, num_microbatches(l)));
  stage_ranges(c, placement);  // throws if the layers cannot be divided
}

}  // namespace

void resolve_pipeline(TrainConfig& c) {
  // An unknown name is reported before flags that do not fit it.
  if (!c.layout.pipeline_schedule.empty()) schedule_kind(c.layout.pipeline_schedule);
  if (c.layout.pipeline_model_parallel_size == 1) {
    const auto refuse = [](bool is_given, std::string_view flag) {
      if (is_given) throw ConfigError("{} needs --pipeline-model-parallel-size above 1", flag);
    };
    refuse(!c.layout.pipeline_schedule.empty() && c.layout.pipeline_schedule != kDefaultSchedule,
           "--pipeline-schedule");
    refuse(c.layout.num_layers_per_virtual_pipeline_stage > 0,
           "--num-layers-per-virtual-pipeline-stage");
    refuse(c.layout.num_virtual_stages_per_pipeline_rank > 1,
           "--num-virtual-stages-per-pipeline-rank");
    refuse(c.layout.microbatch_group_size_per_virtual_pipeline_stage > 0,
           "--microbatch-group-size-per-virtual-pipeline-stage");
    refuse(c.layout.decoder_first_pipeline_num_layers > 0, "--decoder-first-pipeline-num-layers");
    refuse(c.layout.decoder_last_pipeline_num_layers > 0, "--decoder-last-pipeline-num-layers");
    refuse(c.layout.standalone_embedding_stage, "--standalone-embedding-stage");
    c.layout.pipeline_schedule = kDefaultSchedule;
    return;
  }
  if (has_decoder(c.model)) {
    resolve_split_pipeline(c);
    return;
  }
  resolve_virtual_stages(c);
  if (c.layout.pipeline_schedule.empty()) {
    c.layout.pipeline_schedule =
        c.layout.num_virtual_stages_per_pipeline_rank > 1 ? "interleaved" : kDefaultSchedule;
  }
  const ScheduleKind& kind = schedule_kind(c.layout.pipeline_schedule);
  if (c.layout.microbatch_group_size_per_virtual_pipeline_stage > 0 && !kind.takes_group_size) {
    throw ConfigError(
        "--microbatch-group-size-per-virtual-pipeline-stage goes with the interleaved schedules, "
        "not with --pipeline-schedule {}",
        c.layout.pipeline_schedule);
  }
  const Placement placement =
      kind.placement(schedule_request(c.layout, num_microbatches(c.layout)));
  check_stack(c, placement);
  if (is_asynchronous(c.layout)) refuse_with_stale_weights(c);
}

}  // namespace phalanx
