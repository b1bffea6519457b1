#include "phalanx/planner/step_time.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/threads.h"
#include "phalanx/clock/cost_model.h"
#include "phalanx/clock/pricing.h"
#include "phalanx/planner/stack_programs.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/disk_rates.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

ClockRank priced(const RankTrace& trace, Pricing& pricing) {
  const auto priced = [&](const Trace& events, ActionKind kind) {
    return pricing.priced(trace.rank, events, kind);
  };
  ClockRank rank{.before = priced(trace.before, ActionKind::kForward).events,
                 .actions = trace.actions,
                 .distinct = std::vector<ClockAction>(trace.distinct.size()),
                 .numbers = trace.numbers};
  for (std::size_t i = 0; i < trace.actions.size(); ++i) {
    const std::size_t number = trace.numbers[i];
    if (!rank.distinct[number].events.empty()) continue;
    rank.distinct[number] = priced(trace.distinct[number], trace.actions[i].kind);
  }
  return rank;
}

// The seconds of a node's disk, at --disk-bandwidth: all ranks of a stage in a node do the same at
// the same time.
Pricing::DiskSeconds disk_seconds(const RunPlan& plan, int devices_per_node) {
  const std::optional<DiskRates> rates = disk_rates(plan.config.layout);
  if (!rates) return {};
  const auto stage = [&plan](int rank) { return plan.grids.coordinates(rank).pipeline; };
  return [&plan, stage, devices_per_node, rates](int rank, const TransferBegun& transfer) {
    const int first = rank / devices_per_node * devices_per_node;
    const int end = std::min(first + devices_per_node, plan.grids.world_size());
    int alike = 0;
    for (int other = first; other < end; ++other) alike += stage(other) == stage(rank) ? 1 : 0;
    const double bytes = alike * static_cast<double>(transfer.bytes);
    return transfer.op == "read" ? rates->seconds(bytes, 0.0) : rates->seconds(0.0, bytes);
  };
}

ClockedStep clocked(const RunPlan& plan, const std::vector<RankTrace>& traces,
                    const Machine& machine, const PricingRules& rules) {
  Pricing pricing(
      machine, [&](int rank) { return plan.grids.coordinates(rank).pipeline; }, rules);
  const int in_node = static_cast<int>(machine.cluster.devices_per_node.value);
  pricing.price_transfers(disk_seconds(plan, in_node));
  std::vector<ClockRank> ranks;
  for (const RankTrace& trace : traces) {
    ranks.push_back(priced(trace, pricing));
    ranks.back().node = trace.rank / in_node;
  }
  return clock_repeated(std::move(ranks), pricing.meetings());
}

// The machine as it is described, then with all numbers at either end of their ranges, where any
// has a range.
std::vector<Machine> with_ends(const Machine& machine) {
  std::vector<Machine> machines = {machine};
  std::vector<NamedQuantity> numbers = quantities_of(machine.device);
  std::ranges::copy(quantities_of(machine.cluster), std::back_inserter(numbers));
  const auto is_range = [](const NamedQuantity& number) { return number.quantity.is_range(); };
  if (std::ranges::none_of(numbers, is_range)) return machines;
  for (const RangeEnd end : {RangeEnd::kFastest, RangeEnd::kSlowest}) {
    machines.push_back({at_end(machine.device, end), at_end(machine.cluster, end)});
  }
  return machines;
}

PricingRules rules_of(const RunPlan& plan, const DeviceDescription& device,
                      const PredictedProgram& program) {
  PricingRules rules{.products = program.products_type};
  rules.head_columns =
      plan.model->vocabulary().padded / plan.config.layout.tensor_model_parallel_size;
  if (const SoftwareStack* const stack = program.stack) {
    rules.hides_tensor_in_part = stack->tensor == TensorTraffic::kAll;
    rules.sends_wait = !stack->hides_pipeline;
    rules.attention =
        device.product(ProductType::kFP8).peak ? stack->attention_with_fp8 : stack->attention;
    if (stack->host_op > 0.0) rules.host_op = stack->host_op;
  }
  return rules;
}

ProductType product_type_of(const ModelConfig& model) {
  if (model.bf16) return ProductType::kBF16;
  return model.fp16 ? ProductType::kF16 : ProductType::kF32;
}

double part(const StepPrediction& prediction, TimePart which) {
  return prediction.parts.at(static_cast<std::size_t>(which));
}

std::string of_stack(const std::string& stack) {
  return stack == SoftwareStack().name ? "" : fmt::format("of {} ", software_stack(stack).title);
}

constexpr double kSecondsOfHour = 3600.0;
constexpr double kSecondsOfDay = 86400.0;
constexpr double kShownShare = 1e-4;  // of a step: lines of less are left out

}  // namespace

PipelineTraces trace_pipeline(const RunPlan& plan) {
  if (plan.grids.encoder) {
    throw ConfigError(
        "--cluster: a step of an encoder with ranks of its own is not predicted; leave out "
        "--encoder-pipeline-model-parallel-size and --encoder-tensor-model-parallel-size");
  }
  PipelineTraces traces{.programs = step_programs(plan.config)};
  const std::vector<int> ranks = plan.grids.dense.groups("pp").front();
  traces.ranks.resize(ranks.size());
  run_parallel(ranks.size(), usable_cores().count, [&](std::size_t i) {
    traces.ranks[i] = trace_rank(plan.config, *plan.model, traces.programs, ranks[i], plan.kernels);
  });
  return traces;
}

StepPrediction predict_step(const RunPlan& plan, const Machine& machine,
                            const PredictedProgram& program) {
  return predict_step(plan, trace_pipeline(plan), machine, program);
}

StepPrediction predict_step(const RunPlan& plan, const PipelineTraces& traced,
                            const Machine& machine, const PredictedProgram& program) {
  const TrainConfig& config = plan.config;
  const StepPrograms& programs = traced.programs;
  const PricingRules rules = rules_of(plan, machine.device, program);
  std::vector<RankTrace> traces = traced.ranks;
  if (program.stack != nullptr) {
    SoftwareStack stack = *program.stack;
    if (config.model.bf16) stack.gradient_bytes = stack.bf16_gradient_bytes;
    for (RankTrace& trace : traces) trace = as_done_by(stack, trace);
  }
  const std::vector<Machine> machines =
      program.with_range ? with_ends(machine) : std::vector{machine};
  std::vector<ClockedStep> steps(machines.size());
  run_parallel(machines.size(), usable_cores().count,
               [&](std::size_t i) { steps[i] = clocked(plan, traces, machines[i], rules); });
  const ClockedStep& step = steps.front();
  std::vector<int> ranks;
  for (const RankTrace& trace : traces) ranks.push_back(trace.rank);

  StepPrediction prediction{
      .machine = machine.cluster.title,
      .stack = std::string((program.stack != nullptr ? *program.stack : SoftwareStack()).name),
      .devices = plan.grids.world_size(),
      .critical_path = step.critical_path,
      .world_ranks = ranks,
      .timeline = step.timeline,
      .leaves_out_files = plan.disk.has_value() && !plan.disk->seconds,
      .basis = basis_of(traces, machine)};
  const double iterations = programs.usual.iterations;
  const auto scaled = [&](const Machine& described) {
    return scale_factor(described.cluster.scale_loss.value, prediction.devices) / iterations;
  };
  const double scale = scaled(machine);
  prediction.seconds = prediction.low = prediction.high = step.seconds * scale;
  for (std::size_t i = 1; i < machines.size(); ++i) {
    const double seconds = steps[i].seconds * scaled(machines[i]);
    prediction.low = std::min(prediction.low, seconds);
    prediction.high = std::max(prediction.high, seconds);
  }
  const int busiest = step.busiest_rank();
  prediction.rank = ranks[static_cast<std::size_t>(busiest)];
  prediction.parts = step.parts[static_cast<std::size_t>(busiest)];
  for (double& seconds : prediction.parts) seconds *= scale;
  for (CriticalStep& critical : prediction.critical_path) critical.seconds *= scale;
  for (std::vector<TimedAction>& passes : prediction.timeline) {
    for (TimedAction& pass : passes) {
      pass.begin *= scale;
      pass.end *= scale;
    }
  }

  const double samples = static_cast<double>(programs.usual.microbatches) *
                         static_cast<double>(samples_per_microbatch(config.layout));
  prediction.tokens_per_second =
      samples * static_cast<double>(config.data.seq_length) / prediction.seconds;
  prediction.mfu =
      samples * plan.model->flops_per_sample() / prediction.seconds /
      (machine.device.peak(program.products_type.value_or(product_type_of(config.model))) *
       prediction.devices);
  if (machine.cluster.price) {
    prediction.price =
        machine.cluster.price->value * prediction.devices * prediction.seconds / kSecondsOfHour;
  }
  return prediction;
}

std::string to_json(const StepPrediction& prediction) {
  const auto seconds = [&](TimePart which) { return part(prediction, which); };
  const Json exposed = {{"tp", seconds(TimePart::kTensor)},
                        {"cp", seconds(TimePart::kContext)},
                        {"ep", seconds(TimePart::kExpert)},
                        {"pp", seconds(TimePart::kPipeline)},
                        {"dp", seconds(TimePart::kData)}};
  const Json breakdown = {
      {"products", seconds(TimePart::kProducts)}, {"attention", seconds(TimePart::kAttention)},
      {"memory", seconds(TimePart::kMemory)},     {"exposed", exposed},
      {"bubble", seconds(TimePart::kBubble)},     {"optimizer", seconds(TimePart::kOptimizer)},
      {"host", seconds(TimePart::kHost)},         {"disk", seconds(TimePart::kDisk)}};
  Json path = Json::array();
  for (const CriticalStep& step : prediction.critical_path) {
    Json entry = {{"rank", prediction.world_ranks[static_cast<std::size_t>(step.rank)]},
                  {"action", to_string(step.action)}};
    entry["waits_for"] = step.waits_for ? Json(name_of(*step.waits_for)) : Json(nullptr);
    entry["seconds"] = step.seconds;
    path.push_back(std::move(entry));
  }
  Json json = {{"stack", prediction.stack},
               {"seconds", prediction.seconds},
               {"low", prediction.low},
               {"high", prediction.high},
               {"tokens_per_second", prediction.tokens_per_second},
               {"mfu", prediction.mfu}};
  json["price"] = prediction.price ? Json(*prediction.price) : Json(nullptr);
  json["breakdown"] = breakdown;
  json["critical_path"] = std::move(path);
  json["origins"] = Json::object();
  for (const auto& [origin, keys] : prediction.basis.keys) json["origins"][name_of(origin)] = keys;
  json["unlike_measured"] = prediction.basis.unlike_measured;
  return json.dump();
}

std::string to_text(const StepPrediction& prediction, std::optional<double> tokens,
                    std::string_view of_tokens) {
  std::string text = fmt::format("a step {}on {}, {} devices: {:.4g} s", of_stack(prediction.stack),
                                 prediction.machine, prediction.devices, prediction.seconds);
  if (prediction.low < prediction.high) {
    text += fmt::format(" ({:.4g} to {:.4g})", prediction.low, prediction.high);
  }
  text += fmt::format(", {:.0f} tokens/s, MFU {:.1f} %", prediction.tokens_per_second,
                      100.0 * prediction.mfu);
  if (prediction.price) text += fmt::format(", price {:.4g}", *prediction.price);
  text += fmt::format("\n  rank {}, which waits least:\n", prediction.rank);
  for (int i = 0; i < kTimeParts; ++i) {
    const auto which = static_cast<TimePart>(i);
    const double seconds = part(prediction, which);
    if (seconds < kShownShare * prediction.seconds) continue;
    const bool is_exposed = which >= TimePart::kTensor && which <= TimePart::kData;
    text += fmt::format("  {:<12} {:>10.4g} s {:>6.1f} %{}\n", name_of(which), seconds,
                        100.0 * seconds / prediction.seconds,
                        is_exposed ? " (traffic that is waited for)" : "");
  }
  if (tokens) {
    const double days = *tokens / prediction.tokens_per_second / kSecondsOfDay;
    text += fmt::format("  {:.4g} tokens take {:.4g} days", *tokens, days);
    if (prediction.price) {
      text += fmt::format(" and cost {:.4g}", *prediction.price / prediction.seconds * *tokens /
                                                  prediction.tokens_per_second);
    }
    text += of_tokens;
    text += '\n';
  }
  if (prediction.leaves_out_files)
    text += "  without the transfers to and from files: --disk-bandwidth says how fast they are\n";
  return text + to_text(prediction.basis);
}

}  // namespace phalanx
