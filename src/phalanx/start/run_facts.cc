#include "phalanx/start/run_facts.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "phalanx/base/machine.h"
#include "phalanx/metrics/metrics_file.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/start/rank_memory.h"
#include "phalanx/timelines/run_timeline.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

Json machine_facts(const RunSetup& setup) {
  return {{"host", host_name()},
          {"hosts", setup.hosts()},
          {"processor", processor_name()},
          {"cores", setup.cores.reason},
          {"memory_bytes", physical_memory()},
          {"target", cpu::describe_active_target()},
          {"products", setup.device.products_text()},
          {"peak", setup.device.peak_text()},
          {"affinity", setup.affinity.text}};
}

Json model_facts(const RunSetup& setup) {
  const ModelConfig& model = setup.config.model;
  return {{"parameters", setup.model->parameters()},
          {"layers", model.num_layers},
          {"hidden_size", model.hidden_size},
          {"attention_heads", model.num_attention_heads},
          {"sequence_length", setup.config.data.seq_length},
          {"vocabulary", setup.model->vocabulary().ids},
          {"padded_vocabulary", setup.model->vocabulary().padded},
          {"dtype", name_of(setup.model->transformer().dtype)}};
}

Json layout_facts(const RunSetup& setup) {
  const LayoutConfig& layout = setup.config.layout;
  const GridSizes& sizes = setup.grids.dense.sizes();
  Json facts = {
      {"world_size", setup.grids.dense.world_size()},
      {"tensor", sizes.tensor},
      {"pipeline", sizes.pipeline},
      {"data", sizes.data},
      {"context", sizes.context},
      {"context_exchange",
       sizes.context > 1 ? fmt::format("{}", fmt::join(layout.cp_comm_type, " ")) : std::string()},
      {"sequence_parallel", layout.sequence_parallel},
      {"distributed_optimizer", layout.use_distributed_optimizer},
      {"schedule", sizes.pipeline > 1 ? layout.pipeline_schedule : std::string()},
      {"threads_per_rank", layout.threads_per_rank},
      {"micro_batch_size", layout.micro_batch_size},
      {"global_batch_size", layout.global_batch_size}};
  if (setup.grids.expert) {
    const GridSizes& of_experts = setup.grids.expert->sizes();
    facts["expert"] = of_experts.expert;
    facts["expert_tensor"] = of_experts.tensor;
    facts["expert_data"] = of_experts.data;
  }
  return facts;
}

Json data_facts(const RunSetup& setup) {
  const DataConfig& data = setup.config.data;
  const SampleCounts& counts = setup.data->counts();
  Json files = Json::array();
  for (const Manifest::InputFile& file : setup.inputs.files) {
    files.push_back({{"flag", file.flag}, {"path", file.path}, {"bytes", file.bytes}});
  }
  return {{"tokens", setup.data->tokens()},
          {"documents", setup.data->documents()},
          {"split", data.split},
          {"order", data.data_order},
          {"samples", {{"train", counts.train}, {"valid", counts.valid}, {"test", counts.test}}},
          {"tokenizer", setup.config.tokenizer.tokenizer_type},
          {"files", std::move(files)}};
}

Json memory_facts(const RunSetup& setup) {
  Json ranks = Json::array();
  for (const RankMemory& memory : memory_of_ranks(setup.ranks)) {
    Json bytes = Json::object();
    for (std::size_t row = 0; row < kMemoryRows.size(); ++row) {
      bytes[std::string(kMemoryRows[row].key)] = memory.bytes.rows[row];
    }
    bytes["total"] = memory.bytes.total();
    bytes["library_bound"] = memory.library_bound;
    ranks.push_back({{"ranks", ranks_text(memory.ranks)}, {"bytes", std::move(bytes)}});
  }
  return ranks;
}

// The predicted times of a step.
Json disk_facts(const RunSetup& setup) {
  const DiskStep& disk = *setup.disk;
  Json json = {{"read_bytes", disk.traffic.read},
               {"write_bytes", disk.traffic.written},
               {"arithmetic_seconds", setup.arithmetic_seconds()}};
  if (disk.seconds) json["seconds"] = *disk.seconds;
  return json;
}

Json forecast_facts(const StepForecast& forecast) {
  Json parts = Json::object();
  for (const StepForecast::Part& part : forecast.parts) parts[part.name] = part.seconds;
  return {{"machine", forecast.machine}, {"seconds", forecast.seconds},
          {"low", forecast.low},         {"high", forecast.high},
          {"rank", forecast.rank},       {"parts", std::move(parts)}};
}

}  // namespace

std::string run_facts(const RunSetup& setup, const LoadFacts& loading) {
  Json facts = {{"run", setup.identity.run_id},          {"start", setup.identity.start},
                {"restarts", setup.config.run.restarts}, {"version", PHALANX_VERSION},
                {"machine", machine_facts(setup)},       {"model", model_facts(setup)},
                {"layout", layout_facts(setup)},         {"data", data_facts(setup)},
                {"memory", memory_facts(setup)}};
  for (const LossSpec& loss : setup.model->losses()) {
    if (!loss.title.empty()) facts["loss_titles"][metrics_key(loss.name)] = loss.title;
  }
  if (setup.disk) facts["disk"] = disk_facts(setup);
  if (setup.forecast) facts["prediction"] = forecast_facts(*setup.forecast);
  if (loading.bytes_read > 0) {
    facts["loading"] = {{"bytes_read", loading.bytes_read},
                        {"bytes_sent", loading.bytes_sent},
                        {"seconds", loading.seconds},
                        {"from_memory", setup.loads_from_memory}};
  }
  facts["schedule"] =
      Json::parse(schedule_json(setup.programs.training.at(setup.programs.usual).schedule));
  // A path may not be UTF-8.
  return facts.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace phalanx
