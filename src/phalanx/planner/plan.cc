#include "phalanx/planner/plan.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "phalanx/base/numeric.h"
#include "phalanx/families/family.h"
#include "phalanx/inference/run_answers.h"
#include "phalanx/ops/driver_memory.h"
#include "phalanx/planner/expert_messages.h"
#include "phalanx/planner/step_time.h"
#include "phalanx/rehearsal/memory_check.h"
#include "phalanx/rehearsal/memory_table.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/expert_views.h"
#include "phalanx/settings/trained_parameters.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kReadableRanks = 64;

// A program of training, or the evaluation's.
Json program_json(const TrainConfig& config, const ProgramMemory& program) {
  const bool trains = program.size.iterations > 0;
  return {{"kind", trains ? "training" : "evaluation"},
          {"global_batch_size", program.size.microbatches * samples_per_microbatch(config.layout)},
          {"iterations", trains ? program.size.iterations : 1},
          {"microbatches", program.size.microbatches},
          {"bytes", program.bytes.total()}};
}

// The stages of a rank of the pipeline, chunk by chunk.
std::vector<StageRange> stages_of(const RunPlan& plan, int pipeline_rank) {
  std::vector<StageRange> stages;
  for (const StageRange& range : plan.stages) {
    if (plan.placement.rank(range.stage) == pipeline_rank) stages.push_back(range);
  }
  return stages;
}

Json stages_json(const RunPlan& plan, int pipeline_rank) {
  const bool two_stacks = has_decoder(plan.config.model);
  Json list = Json::array();
  for (const StageRange& range : stages_of(plan, pipeline_rank)) {
    Json json = {
        {"stage", range.stage}, {"first_layer", range.first_layer}, {"layers", range.num_layers}};
    if (two_stacks) {
      json["first_decoder_layer"] = range.first_decoder_layer;
      json["decoder_layers"] = range.num_decoder_layers;
    }
    json["holds"] = description_of(range, two_stacks);
    list.push_back(std::move(json));
  }
  return list;
}

// `where`: the JSON key of the first half of a traffic key.
template <typename Entry>
Json traffic_json(const TrafficTotals<Entry>& totals, const char* where) {
  Json list = Json::array();
  for (const auto& [key, total] : totals.by_key()) {
    list.push_back(
        {{where, key.first}, {"op", key.second}, {"count", total.count}, {"bytes", total.bytes}});
  }
  return list;
}

Json bytes_json(const MemoryPlan& memory) {
  Json json = Json::object();
  for (std::size_t row = 0; row < kMemoryRows.size(); ++row) {
    json[std::string(kMemoryRows[row].key)] = memory.bytes.rows[row];
    if (row != MemoryRow("saved").index()) continue;
    json["saved_per_microbatch"] = memory.saved_per_microbatch;
    json["lent"] = memory.lent;
  }
  json["total"] = memory.bytes.total();
  json["library_bound"] = memory.library_bound;
  json["snapshot_bytes"] = memory.snapshot_bytes;
  return json;
}

// {"tp", "cp", "dp", "pp"}, and where experts have a grid of their own "ep", "etp" and "edp".
Json coordinates_json(const RunPlan& plan, int rank) {
  const GridCoordinates at = plan.grids.dense.coordinates(rank);
  Json json = {{"tp", at.tensor}, {"cp", at.context}, {"dp", at.data}, {"pp", at.pipeline}};
  if (!plan.grids.expert) return json;
  const GridCoordinates of_experts = plan.grids.expert_coordinates(rank);
  json["ep"] = of_experts.expert;
  json["etp"] = of_experts.tensor;
  json["edp"] = of_experts.data;
  return json;
}

Json rank_json(const RunPlan& plan, const MemoryPlan& memory, int rank) {
  const GridCoordinates at = plan.grids.dense.coordinates(rank);
  return {{"rank", rank},
          {"coordinates", coordinates_json(plan, rank)},
          {"parameters", memory.model_parameters},
          {"bytes", bytes_json(memory)},
          {"microbatches_in_flight", memory.microbatches_in_flight},
          {"stages", stages_json(plan, at.pipeline)},
          {"messages", traffic_json(memory.messages, "group")},
          {"file_bytes", memory.file_bytes},
          {"transfers", traffic_json(memory.transfers, "file")},
          {"largest_program", program_json(plan.config, memory.programs[memory.largest])}};
}

// [{"samples": int, "global_batch_size": int}, ...]: from how many consumed samples on.
Json batch_sizes_json(const TrainConfig& config) {
  Json list = Json::array();
  const BatchSchedule batches = batch_schedule(config);
  for (const BatchSchedule::Piece& piece : batches.pieces()) {
    list.push_back({{"samples", piece.from}, {"global_batch_size", piece.batch}});
  }
  return list;
}

// Of the busiest host.
std::string disk_text(const RunPlan& plan) {
  const LayoutConfig& layout = plan.config.layout;
  std::string text = to_text(*plan.disk, layout);
  if (plan.grids.dense.world_size() == 1) return text;
  return fmt::format("of all ranks of a host ({}) {}", ranks_on_machine(layout), text);
}

template <typename Entry>
std::string traffic_table(const TrafficTotals<Entry>& totals) {
  std::string text;
  for (const auto& [key, total] : totals.by_key()) {
    text += fmt::format("  {:<8} {:<15} {:>8} {:>12} {:>20} B\n", key.first, key.second,
                        format_count(total.count), format_bytes(total.bytes),
                        format_count(total.bytes));
  }
  return text;
}

// The sum of all ranks; in the largest runs it exceeds 64 bits.
double flops_per_step(const RunPlan& plan) {
  double flops = 0.0;
  for (const RankPlan& group : plan.groups) {
    flops += static_cast<double>(group.memory.flops_per_step) *
             static_cast<double>(std::ssize(group.ranks));
  }
  return flops;
}

// An integer where 64 bits are enough.
Json flops_json(const RunPlan& plan) {
  if (flops_per_step(plan) > 9e18) return flops_per_step(plan);
  std::int64_t flops = 0;
  for (const RankPlan& group : plan.groups) {
    flops += group.memory.flops_per_step * std::ssize(group.ranks);
  }
  return flops;
}

// Ranks come to hosts in their order.
std::optional<DiskStep> disk_of(const RunPlan& plan) {
  const LayoutConfig& layout = plan.config.layout;
  std::vector<DiskTraffic> traffic(static_cast<std::size_t>(plan.grids.dense.world_size()));
  for (const RankPlan& group : plan.groups) {
    const DiskTraffic of_rank = disk_traffic(group.memory.transfers);
    for (const int rank : group.ranks) traffic[static_cast<std::size_t>(rank)] = of_rank;
  }
  const auto ranks = static_cast<int>(ranks_on_machine(layout));
  return disk_step(layout, traffic, [&](int rank) { return rank / ranks; });
}

Json disk_json(const DiskStep& disk) {
  Json json = {{"read_bytes", disk.traffic.read}, {"write_bytes", disk.traffic.written}};
  if (disk.seconds) json["seconds"] = *disk.seconds;
  return json;
}

Json save_json(const SavePlan& save) {
  Json json = {
      {"bytes", save.bytes}, {"largest_part", save.largest_part}, {"host_bytes", save.host_bytes}};
  if (save.seconds) json["seconds"] = *save.seconds;
  return json;
}

// The first rank of those that need most of their devices' memory.
const RankPlan& largest_on_device(const RunPlan& plan) {
  return *std::ranges::max_element(
      plan.groups, {}, [](const RankPlan& group) { return device_bytes(group.memory); });
}

Json device_json(const RunPlan& plan) {
  const NamedDevice& device = *plan.kernels.named;
  const RankPlan& largest = largest_on_device(plan);
  const std::int64_t needed = device_bytes(largest.memory);
  return {{"name", device.name},
          {"memory_bytes", device.memory_bytes},
          {"rank", largest.ranks.front()},
          {"needed_bytes", needed},
          {"library_bound", kDriverBytesOfDevice},
          {"fits", needed + kDriverBytesOfDevice <= device.memory_bytes}};
}

std::string device_text(const RunPlan& plan) {
  const NamedDevice& device = *plan.kernels.named;
  const RankPlan& largest = largest_on_device(plan);
  const std::int64_t needed = device_bytes(largest.memory);
  const std::int64_t left = device.memory_bytes - needed - kDriverBytesOfDevice;
  return fmt::format(
      "device: {} of compute capability {}.{} has {}; rank {} needs {}{}, its driver and libraries "
      "an estimated {}: {}\n",
      device.title, device.major, device.minor, format_bytes(device.memory_bytes),
      largest.ranks.front(), format_bytes(needed),
      plan.grids.dense.world_size() == 1 ? "" : ", no other more",
      format_bytes(kDriverBytesOfDevice),
      left >= 0 ? fmt::format("it fits, with {} for other programs", format_bytes(left))
                : fmt::format("it does not fit, {} are missing", format_bytes(-left)));
}

std::string pipeline_text(const TrainConfig& c) {
  if (c.layout.pipeline_model_parallel_size == 1) return "";
  return fmt::format("pipeline parallel {} ({}), ", c.layout.pipeline_model_parallel_size,
                     c.layout.pipeline_schedule);
}

std::string context_text(const LayoutConfig& layout) {
  if (layout.context_parallel_size == 1) return "";
  return fmt::format("context parallel {} ({}), ", layout.context_parallel_size,
                     fmt::join(layout.cp_comm_type, " "));
}

std::vector<std::string> loss_names(const RunPlan& plan) {
  std::vector<std::string> names;
  for (const LossSpec& loss : plan.model->losses()) names.push_back(loss.name);
  return names;
}

std::optional<ExpertMessages> expert_messages(const RunPlan& plan) {
  return expert_messages(plan.config, plan.model->transformer().dtype);
}

Json expert_messages_json(const ExpertMessages& messages) {
  const auto json = [](const ExpertMessage& forward, const ExpertMessage& backward) {
    return Json{{"forward", {{"formula", forward.formula}, {"bytes", forward.bytes}}},
                {"backward", {{"formula", backward.formula}, {"bytes", backward.bytes}}}};
  };
  return {{"dispatch", json(messages.dispatch, messages.dispatch_backward)},
          {"combine", json(messages.combine, messages.combine_backward)}};
}

Json model_json(const RunPlan& plan) {
  const TrainConfig& c = plan.config;
  Json json = {{"family", family_of(c).name()},
               {"parameters", plan.model_parameters},
               {"layers", c.model.num_layers},
               {"hidden_size", c.model.hidden_size},
               {"attention_heads", c.model.num_attention_heads},
               {"vocabulary", plan.model->vocabulary().ids},
               {"padded_vocabulary", plan.model->vocabulary().padded},
               {"sequence_length", c.data.seq_length},
               {"dtype", name_of(plan.model->transformer().dtype)},
               {"losses", loss_names(plan)}};
  if (c.experts.num_experts > 0) {
    const nn::RowSizes rows = expert_rows(c);
    json["active_parameters"] = plan.model->active_parameters();
    json["expert_rows"] = {
        {"balanced", rows.balanced}, {"planned", rows.round}, {"most", rows.most}};
    if (const auto messages = expert_messages(plan)) {
      json["expert_messages"] = expert_messages_json(*messages);
    }
  }
  if (plan.trained_parameters != plan.model_parameters) {
    json["trained_parameters"] = plan.trained_parameters;
  }
  if (has_decoder(c.model)) {
    json["decoder_layers"] = c.model.decoder_num_layers;
    json["decoder_sequence_length"] = c.data.decoder_seq_length;
  }
  return json;
}

std::string model_text(const RunPlan& plan) {
  const TrainConfig& c = plan.config;
  const bool two_stacks = has_decoder(c.model);
  const auto both = [&](std::int64_t first, std::int64_t second) {
    return two_stacks ? fmt::format("{} + {}", first, second) : fmt::format("{}", first);
  };
  std::string text = fmt::format(
      "{}: {} layers{}, hidden {}, {} heads, sequence {}, vocabulary {} (padded {}), {}\n",
      family_of(c).title(), both(c.model.num_layers, c.model.decoder_num_layers),
      two_stacks ? " (encoder + decoder)" : "", c.model.hidden_size, c.model.num_attention_heads,
      both(c.data.seq_length, c.data.decoder_seq_length), plan.model->vocabulary().ids,
      plan.model->vocabulary().padded, name_of(plan.model->transformer().dtype));
  const std::vector<std::string> losses = loss_names(plan);
  if (losses.size() > 1) text += fmt::format("losses: {}\n", fmt::join(losses, ", "));
  return text;
}

// Nothing where experts lie on ranks as other layers do.
std::string expert_text(const ParallelGrids& grids) {
  if (!grids.expert) return "";
  const GridSizes& sizes = grids.expert->sizes();
  return fmt::format("; experts: expert parallel {}, expert tensor parallel {}, data parallel {}",
                     sizes.expert, sizes.tensor, sizes.data);
}

// The first rank of every stage.
std::string stage_table(const RunPlan& plan) {
  std::string text =
      fmt::format("{:>8} {:>6} {:>16} {:>12} {:>12} {:>12}  {:<22}  {}\n", "pipeline", "rank",
                  "parameters", "saved", "workspace", "total", "microbatches in flight", "has");
  int stages = 0;
  for (const RankPlan& group : plan.groups) {
    const GridCoordinates at = plan.grids.dense.coordinates(group.ranks.front());
    if (at.pipeline < stages) continue;
    ++stages;
    const MemoryPlan& memory = group.memory;
    std::vector<std::string> parts;
    for (const StageRange& range : stages_of(plan, at.pipeline)) {
      parts.push_back(description_of(range, has_decoder(plan.config.model)));
    }
    text += fmt::format(
        "{:>8} {:>6} {:>16} {:>12} {:>12} {:>12}  {:<22}  {}\n", at.pipeline, group.ranks.front(),
        format_count(memory.model_parameters), format_bytes(memory.bytes["saved"]),
        format_bytes(memory.bytes["workspace"]), format_bytes(memory.bytes.total()),
        fmt::format("{}", fmt::join(memory.microbatches_in_flight, ", ")), fmt::join(parts, "; "));
  }
  return text;
}

}  // namespace

RunPlan plan_run(const TrainConfig& config, std::int64_t vocabulary, const DeviceChoice& kernels) {
  const StepPrograms programs = step_programs(config);
  RunPlan plan{.config = config,
               .grids = parallel_grids(config.layout),
               .placement = programs.placement(),
               .stages = model_stages(config, programs.placement()),
               .model = make_model(config, vocabulary),
               .kernels = kernels,
               .model_parameters = 0,
               .trained_parameters = 0,
               .groups = {},
               .disk = {}};
  plan.model_parameters = plan.model->parameters();
  plan.trained_parameters = trained_share(config, *plan.model).parameters;
  plan.groups = plan_ranks(config, *plan.model, programs, kernels);
  reserve_answers(plan.groups, config, vocabulary, kernels);
  plan.disk = disk_of(plan);
  plan.save = save_plan(config, *plan.model, plan.groups);
  return plan;
}

std::string to_json(const RunPlan& plan, ListedRanks listed, const StepPrediction* prediction) {
  std::map<int, Json> ranks;
  const bool all = listed == ListedRanks::kAll || plan.grids.dense.world_size() <= kReadableRanks;
  for (const RankPlan& group : plan.groups) {
    if (all) {
      for (const int rank : group.ranks) ranks[rank] = rank_json(plan, group.memory, rank);
      continue;
    }
    const int first = group.ranks.front();
    ranks[first] = rank_json(plan, group.memory, first);
    ranks[first]["same_as"] = std::vector<int>(group.ranks.begin() + 1, group.ranks.end());
  }
  Json list = Json::array();
  for (auto& [rank, json] : ranks) list.push_back(std::move(json));
  Json document = {{"model", model_json(plan)},
                   {"flops_per_step", flops_json(plan)},
                   {"batch_sizes", batch_sizes_json(plan.config)}};
  if (plan.config.layout.device == "cpu") {
    document["cpu_target"] = cpu::name_of(plan.kernels.processor.target);
  }
  if (plan.kernels.named != nullptr) document["device"] = device_json(plan);
  if (plan.disk) document["disk"] = disk_json(*plan.disk);
  document["save"] = save_json(plan.save);
  if (prediction != nullptr) document["time"] = Json::parse(to_json(*prediction));
  document["ranks"] = std::move(list);
  return document.dump(2) + "\n";
}

std::string to_text(const RunPlan& plan) {
  const TrainConfig& c = plan.config;
  const BatchSchedule batches = batch_schedule(c);
  std::string text = model_text(plan);
  const std::string trained =
      plan.trained_parameters == plan.model_parameters
          ? ""
          : fmt::format(", of which {} are trained", format_count(plan.trained_parameters));
  const std::string active = c.experts.num_experts == 0
                                 ? ""
                                 : fmt::format(", of which {} are active for a token",
                                               format_count(plan.model->active_parameters()));
  text += fmt::format("{} parameters{}{}; {:.4g} floating-point operations a step\n",
                      format_count(plan.model_parameters), active, trained, flops_per_step(plan));
  if (c.experts.num_experts > 0) {
    const nn::RowSizes rows = expert_rows(c);
    text += fmt::format(
        "experts of a layer compute on each rank {} rows of a microbatch if all have equally many, "
        "at most {}; memory is for {}{}\n",
        rows.balanced, rows.most, rows.round,
        rows.most_rounds() > 1 ? fmt::format(" (up to {} rounds)", rows.most_rounds()) : "");
  }
  text += fmt::format(
      "global batch {} = {} microbatches of {} on each of {} data-parallel ranks; {} threads per "
      "rank, {}\n",
      batches.last(), num_microbatches(c.layout), c.layout.micro_batch_size,
      data_parallel_size(c.layout), c.layout.threads_per_rank,
      c.layout.device == "cpu"
          ? fmt::format("{} products on {}", cpu::name_of(plan.kernels.products),
                        cpu::name_of(plan.kernels.processor.target))
          : fmt::format("products of --device {}", c.layout.device));
  if (batches.pieces().size() > 1) {
    text += fmt::format("it begins with {} samples and changes {} times, last after {} samples\n",
                        batches.at(0), batches.pieces().size() - 1,
                        format_count(batches.pieces().back().from));
  }
  if (plan.grids.dense.world_size() > 1) {
    text += fmt::format("{} ranks: tensor parallel {}{}, {}{}data parallel {}{}\n",
                        plan.grids.dense.world_size(), c.layout.tensor_model_parallel_size,
                        c.layout.sequence_parallel ? " with sequence parallelism" : "",
                        context_text(c.layout), pipeline_text(c), data_parallel_size(c.layout),
                        expert_text(plan.grids));
  }
  // Tensor-parallel ranks differ in a few parameters at most: the first one is shown.
  const MemoryPlan& memory = plan.groups.front().memory;
  text += "memory of rank 0:\n" + memory_table(memory) + "\n";
  if (c.layout.pipeline_model_parallel_size > 1) text += stage_table(plan);
  if (plan.kernels.named != nullptr) text += device_text(plan);
  if (!memory.messages.by_key().empty()) {
    text += "messages of rank 0 in a step (group, operation, count, payload it contributes):\n" +
            traffic_table(memory.messages);
    if (const auto messages = expert_messages(plan)) text += to_text(*messages, c);
  }
  if (memory.file_bytes > 0) {
    text += fmt::format(
                "files of rank 0: {} of the disk; in a step (file, operation, count, "
                "bytes):\n",
                format_bytes(memory.file_bytes)) +
            traffic_table(memory.transfers);
  }
  if (plan.disk) text += fmt::format("disk: a step {}\n", disk_text(plan));
  text += fmt::format("a checkpoint: {}\n", to_text(plan.save, c));
  return text;
}

}  // namespace phalanx
