#pragma once
// `phalanx plan`: what a run with these flags would take on every rank of its world, without
// allocating it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/mesh/parallel_grids.h"
#include "phalanx/model/model.h"
#include "phalanx/pipeline/placement.h"
#include "phalanx/planner/save_plan.h"
#include "phalanx/rehearsal/disk_time.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

struct StepPrediction;

struct RunPlan {
  TrainConfig config;  // resolved
  ParallelGrids grids;
  Placement placement;             // of the pipeline's stages
  std::vector<StageRange> stages;  // the layers of each stage
  std::shared_ptr<const Model> model;
  DeviceChoice kernels;
  std::int64_t model_parameters = 0;    // global, without vocabulary padding
  std::int64_t trained_parameters = 0;  // of these
  std::vector<RankPlan> groups;         // ranks with the same parameters are in one group
  std::optional<DiskStep> disk;         // if states lie in files
  SavePlan save = {};                   // of a checkpoint
};

// `config` is resolved; `vocabulary` is the tokenizer's size.
RunPlan plan_run(const TrainConfig& config, std::int64_t vocabulary, const DeviceChoice& kernels);

// Which ranks the document lists: all of them if there are up to 64; in larger worlds the first of
// each group, with the others under "same_as", unless all are asked for.
enum class ListedRanks { kAsManyAsReadable, kAll };

// One JSON document with a newline: {"model" ("family", "parameters", "layers", "losses", ...; with
// --trainable or --freeze also "trained_parameters", with experts "active_parameters" and
// "expert_rows" ("balanced", "planned", "most": of a rank, a layer and a microbatch) and, where
// tokens travel, "expert_messages" (expert_messages.h: "dispatch" and "combine", each with
// "forward" and "backward", a "formula" and its "bytes"); of an encoder and a decoder also
// "decoder_layers" and "decoder_sequence_length"), "flops_per_step", "batch_sizes": [{"samples",
// "global_batch_size"}], "disk" (of files: "read_bytes", "write_bytes" and, with --disk-bandwidth,
// "seconds" of a step on the busiest host), "save" ("bytes" of a checkpoint, "largest_part" of a
// rank, "host_bytes" of the busiest host and, with --disk-bandwidth, its "seconds"), "cpu_target",
// "ranks": [{"rank", "coordinates", "parameters", "bytes", "microbatches_in_flight", "stages":
// [{"stage", "first_layer", "layers", "holds"}], "messages", "file_bytes", "transfers",
// "largest_program": {"kind", "global_batch_size", "iterations", "microbatches", "bytes"}}]}.
// Operations, messages and transfers are of a step of the last batch. With a prediction also "time"
// (step_time.h).
std::string to_json(const RunPlan& plan, ListedRanks listed = ListedRanks::kAsManyAsReadable,
                    const StepPrediction* prediction = nullptr);
// The table for people.
std::string to_text(const RunPlan& plan);

}  // namespace phalanx
