#include "phalanx/planner/plan.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "phalanx/base/numeric.h"
#include "phalanx/train/run_report.h"

namespace phalanx {

RunPlan plan_run(const TrainConfig& config, std::int64_t vocabulary,
                 cpu::ProductPrecision products) {
  RunPlan plan{.config = config,
               .model = gpt_config(config, vocabulary),
               .products = products,
               .model_parameters = 0,
               .memory = {}};
  plan.model_parameters = gpt_parameters(plan.model);
  plan.memory = plan_memory(config, plan.model, products);
  return plan;
}

std::string to_json(const RunPlan& plan) {
  using Json = nlohmann::ordered_json;
  const MemoryPlan& memory = plan.memory;
  const Json rank = {{"rank", 0},
                     {"coordinates", {{"tp", 0}, {"cp", 0}, {"dp", 0}, {"pp", 0}}},
                     {"parameters", memory.model_parameters},
                     {"bytes",
                      {{"parameters", memory.parameters},
                       {"main_parameters", memory.main_parameters},
                       {"gradients", memory.gradients},
                       {"optimizer", memory.optimizer},
                       {"saved", memory.saved},
                       {"saved_per_microbatch", Json::array({memory.saved_per_microbatch})},
                       {"workspace", memory.workspace},
                       {"communication", memory.communication},
                       {"total", memory.total},
                       {"library_bound", memory.library_bound}}},
                     {"microbatches_in_flight", Json::array({memory.microbatches_in_flight})},
                     {"messages", Json::array()}};
  const Json document = {{"model",
                          {{"parameters", plan.model_parameters},
                           {"layers", plan.config.num_layers},
                           {"hidden_size", plan.config.hidden_size},
                           {"attention_heads", plan.config.num_attention_heads},
                           {"vocabulary", plan.model.vocabulary},
                           {"padded_vocabulary", plan.model.padded_vocabulary},
                           {"sequence_length", plan.config.seq_length},
                           {"dtype", name_of(plan.model.transformer.dtype)}}},
                         {"flops_per_step", memory.flops_per_step},
                         {"ranks", Json::array({rank})}};
  return document.dump(2) + "\n";
}

std::string to_text(const RunPlan& plan) {
  const TrainConfig& c = plan.config;
  std::string text = fmt::format(
      "GPT: {} layers, hidden {}, {} heads, sequence {}, vocabulary {} (padded {}), {}\n",
      c.num_layers, c.hidden_size, c.num_attention_heads, c.seq_length, plan.model.vocabulary,
      plan.model.padded_vocabulary, name_of(plan.model.transformer.dtype));
  text += fmt::format("{} parameters; {:.4g} floating-point operations a step\n",
                      format_count(plan.model_parameters),
                      static_cast<double>(plan.memory.flops_per_step));
  text +=
      fmt::format("global batch {} = {} microbatches of {}; {} threads, {} products\n",
                  c.global_batch_size, num_microbatches(c), c.micro_batch_size, c.threads_per_rank,
                  plan.products == cpu::ProductPrecision::kBf16 ? "bf16" : "fp32");
  return text + "memory of rank 0:\n" + memory_table(plan.memory) + "\n";
}

}  // namespace phalanx
