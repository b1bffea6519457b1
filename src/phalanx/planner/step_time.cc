#include "phalanx/planner/step_time.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/threads.h"
#include "phalanx/clock/cost_model.h"
#include "phalanx/clock/pricing.h"
#include "phalanx/rehearsal/rank_trace.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/disk_rates.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

// The ranks of the first pipeline: the others do the same at the same times.
std::vector<RankTrace> trace_pipeline(const RunPlan& plan, const StepPrograms& programs,
                                      const std::vector<int>& ranks) {
  std::vector<RankTrace> traces(ranks.size());
  run_parallel(ranks.size(), usable_cores().count, [&](std::size_t i) {
    traces[i] = trace_rank(plan.config, *plan.model, programs, ranks[i], plan.kernels);
  });
  return traces;
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
                    const Machine& machine) {
  Pricing pricing(machine, [&](int rank) { return plan.grids.coordinates(rank).pipeline; });
  const int in_node = static_cast<int>(machine.cluster.devices_per_node.value);
  pricing.price_transfers(disk_seconds(plan, in_node));
  std::vector<ClockRank> ranks;
  for (const RankTrace& trace : traces) {
    const auto priced = [&](const Trace& events, ActionKind kind) {
      return pricing.priced(trace.rank, events, kind);
    };
    ClockRank rank{.before = priced(trace.before, ActionKind::kForward).events,
                   .actions = trace.actions,
                   .distinct = std::vector<ClockAction>(trace.distinct.size()),
                   .numbers = trace.numbers,
                   .node = trace.rank / in_node};
    for (std::size_t i = 0; i < trace.actions.size(); ++i) {
      const std::size_t number = trace.numbers[i];
      if (!rank.distinct[number].events.empty()) continue;
      rank.distinct[number] = priced(trace.distinct[number], trace.actions[i].kind);
    }
    ranks.push_back(std::move(rank));
  }
  return clock_repeated(std::move(ranks), pricing.meetings());
}

ProductType product_type_of(const ModelConfig& model) {
  if (model.bf16) return ProductType::kBF16;
  return model.fp16 ? ProductType::kF16 : ProductType::kF32;
}

std::vector<std::string> assumed_numbers(const Machine& machine) {
  std::vector<std::string> names;
  for (const auto& list : {quantities_of(machine.device), quantities_of(machine.cluster)}) {
    for (const NamedQuantity& number : list) {
      if (number.quantity.origin == Origin::kDefault) names.push_back(number.key);
    }
  }
  return names;
}

double part(const StepPrediction& prediction, TimePart which) {
  return prediction.parts.at(static_cast<std::size_t>(which));
}

constexpr double kSecondsOfHour = 3600.0;
constexpr double kSecondsOfDay = 86400.0;
constexpr double kShownShare = 1e-4;  // of a step: lines of less are left out

}  // namespace

StepPrediction predict_step(const RunPlan& plan, const Machine& machine) {
  const TrainConfig& config = plan.config;
  if (plan.grids.encoder) {
    throw ConfigError(
        "--cluster: a step of an encoder with ranks of its own is not predicted; leave out "
        "--encoder-pipeline-model-parallel-size and --encoder-tensor-model-parallel-size");
  }
  const StepPrograms programs = step_programs(config);
  const std::vector<int> ranks = plan.grids.dense.groups("pp").front();
  const std::vector<RankTrace> traces = trace_pipeline(plan, programs, ranks);
  const ClockedStep step = clocked(plan, traces, machine);

  StepPrediction prediction{.machine = machine.cluster.title,
                            .devices = plan.grids.world_size(),
                            .critical_path = step.critical_path,
                            .world_ranks = ranks,
                            .timeline = step.timeline,
                            .leaves_out_files = plan.disk.has_value() && !plan.disk->seconds,
                            .assumed = assumed_numbers(machine)};
  const double iterations = programs.usual.iterations;
  const auto scaled = [&](const Machine& described) {
    return scale_factor(described.cluster.scale_loss.value, prediction.devices) / iterations;
  };
  const double scale = scaled(machine);
  prediction.seconds = step.seconds * scale;
  const auto at = [&](RangeEnd end) {
    const Machine described{at_end(machine.device, end), at_end(machine.cluster, end)};
    return clocked(plan, traces, described).seconds * scaled(described);
  };
  prediction.low = std::min(prediction.seconds, at(RangeEnd::kFastest));
  prediction.high = std::max(prediction.seconds, at(RangeEnd::kSlowest));
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
  prediction.mfu = samples * plan.model->flops_per_sample() / prediction.seconds /
                   (machine.device.peak(product_type_of(config.model)) * prediction.devices);
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
  Json json = {{"seconds", prediction.seconds},
               {"low", prediction.low},
               {"high", prediction.high},
               {"tokens_per_second", prediction.tokens_per_second},
               {"mfu", prediction.mfu}};
  json["price"] = prediction.price ? Json(*prediction.price) : Json(nullptr);
  json["breakdown"] = breakdown;
  json["critical_path"] = std::move(path);
  return json.dump();
}

std::string to_text(const StepPrediction& prediction, std::optional<double> tokens) {
  std::string text = fmt::format("a step on {}, {} devices: {:.4g} s", prediction.machine,
                                 prediction.devices, prediction.seconds);
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
    text += '\n';
  }
  if (prediction.leaves_out_files)
    text += "  without the transfers to and from files: --disk-bandwidth says how fast they are\n";
  if (!prediction.assumed.empty()) {
    text += "  assumed, not measured:";
    for (const std::string& name : prediction.assumed) text += ' ' + name;
    text += '\n';
  }
  return text;
}

}  // namespace phalanx
