#include "phalanx/clock/pricing.h"

#include <algorithm>
#include <array>
#include <utility>

#include "phalanx/clock/collective_cost.h"
#include "phalanx/clock/cost_model.h"

namespace phalanx {
namespace {

constexpr std::string_view kPipelineGroup = "pp";

double moved(const OpCost& cost) {
  return static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written);
}

bool is_backward(std::string_view op) { return op.ends_with("backward"); }

// Scores, their softmax and the sum of values one after the other, with all scores in memory: two
// products a head, and passes over the scores; backward twice the products and more passes.
double unfused_attention_seconds(const DeviceDescription& device, const OpCost& cost) {
  constexpr double kForwardPasses = 4.5, kBackwardPasses = 5.5;  // over the scores
  const AttentionShape& shape = cost.attention;
  const std::int64_t matrices = shape.batch * shape.heads;
  const ProductType type = product_type(cost.dtype);
  const double scores = static_cast<double>(matrices * shape.queries * shape.keys) *
                        static_cast<double>(size_of(cost.dtype));
  const double of_keys =
      product_seconds(device, {shape.queries, shape.keys, shape.head_size, matrices, type});
  const double of_values =
      product_seconds(device, {shape.queries, shape.head_size, shape.keys, matrices, type});
  if (!is_backward(cost.name)) {
    return of_keys + of_values + memory_seconds(device, kForwardPasses * scores);
  }
  return of_keys + 3 * of_values + memory_seconds(device, kBackwardPasses * scores);
}

double attention_seconds(const DeviceDescription& device, const OpCost& cost) {
  if (cost.name.starts_with("unfused")) return unfused_attention_seconds(device, cost);
  const AttentionShape& shape = cost.attention;
  const double forward_flops = 4.0 * static_cast<double>(shape.batch * shape.heads) *
                               static_cast<double>(shape.queries * shape.keys) *
                               static_cast<double>(shape.head_size) * shape.seen;
  return attention_seconds(
      device, {product_type(cost.dtype), is_backward(cost.name), shape.head_size, shape.keys},
      forward_flops, moved(cost));
}

// Within a product: nothing beyond what is measured of it alone.
double activation_seconds(const DeviceDescription& device, const OpCost& cost) {
  const auto activation = activation_of(cost);
  if (!activation) return 0.0;
  const auto rate = device.op_rates.find(op_rate_key(activation->op, cost.dtype));
  return rate == device.op_rates.end() ? 0.0 : activation->bytes / rate->second.value;
}

bool is_product(const OpCost& cost) { return cost.product.batch > 0; }
bool is_attention(const OpCost& cost) { return cost.attention.batch > 0; }

}  // namespace

TimePart part_of_group(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, TimePart>, 9> kGroups = {
      {{"tp", TimePart::kTensor},
       {"cp", TimePart::kContext},
       {"cp-heads", TimePart::kContext},
       {"cp-ring", TimePart::kContext},
       {"ep", TimePart::kExpert},
       {"etp", TimePart::kExpert},
       {"tp-ep", TimePart::kExpert},
       {"pp", TimePart::kPipeline},
       {"sharing", TimePart::kPipeline}}};
  const auto* const found = std::ranges::find(kGroups, name, &decltype(kGroups)::value_type::first);
  return found == kGroups.end() ? TimePart::kData : found->second;
}

std::optional<MatrixProduct> product_of(const OpCost& cost, std::optional<ProductType> type) {
  if (!is_product(cost)) return {};
  const ProductShape& shape = cost.product;
  const std::int64_t groups = std::max(shape.m_groups, shape.k_groups);
  const auto part = [](std::int64_t rows, std::int64_t by) { return (rows + by - 1) / by; };
  return MatrixProduct{.m = part(shape.m, shape.m_groups),
                       .n = shape.n,
                       .k = part(shape.k, shape.k_groups),
                       .batch = shape.batch * groups,
                       .type = type.value_or(product_type(cost.dtype))};
}

std::optional<FusedActivation> activation_of(const OpCost& cost) {
  const ProductShape& shape = cost.product;
  const auto bytes_of = [&](std::int64_t elements) {
    return static_cast<double>(elements * shape.batch * size_of(cost.dtype));
  };
  const double result = bytes_of(shape.m * shape.n);
  const double factors = bytes_of(shape.m * shape.k + shape.k * shape.n);
  if (cost.name == "linear_forward" && static_cast<double>(cost.bytes_written) > 1.5 * result) {
    return FusedActivation{"bias_activation_forward", 2.0 * result};
  }
  if (cost.name == "linear_input_gradient" &&
      static_cast<double>(cost.bytes_read) > factors + 0.5 * result) {
    return FusedActivation{"bias_activation_backward", 3.0 * result};
  }
  return {};
}

double op_seconds(const DeviceDescription& device, const OpCost& cost,
                  std::optional<ProductType> products) {
  if (const auto product = product_of(cost, products)) {
    return product_seconds(device, *product) + activation_seconds(device, cost);
  }
  if (is_attention(cost)) return attention_seconds(device, cost);
  return op_seconds(device, cost.name, cost.dtype, moved(cost));
}

ClockAction Pricing::priced(int rank, std::span<const TraceEvent> events, ActionKind kind) {
  ClockAction action;
  std::set<std::uint64_t> of_pipeline;  // the numbers of its messages
  std::int64_t ops = 0;
  for (const TraceEvent& event : events) {
    if (const auto* op = std::get_if<OpRun>(&event)) {
      action.events.push_back(compute(op->cost, kind));
      ++ops;
    } else if (const auto* message = std::get_if<MessageBegun>(&event)) {
      if (message->group->name == kPipelineGroup) {
        of_pipeline.insert(message->work);
        if (kind != ActionKind::kSend) continue;
        const FlowCost cost = cost_of(rank, *message);
        if (rules_.sends_wait) {
          action.events.push_back({.part = TimePart::kPipeline, .seconds = cost.seconds});
        } else {
          action.message = {action.message.seconds + cost.seconds,
                            action.message.latency + cost.latency, cost.link};
        }
      } else {
        action.events.push_back(begin(rank, *message));
      }
    } else if (const auto* transfer = std::get_if<TransferBegun>(&event)) {
      if (!disk_seconds_) continue;
      action.events.push_back(
          {.kind = ClockEvent::Kind::kBegin,
           .part = TimePart::kDisk,
           .cost = {.seconds = disk_seconds_(rank, *transfer), .link = LinkKind::kDisk},
           .token = static_cast<int>(transfer->work),
           .channel = kDiskChannel});
    } else if (const auto* awaited = std::get_if<Awaited>(&event)) {
      if (of_pipeline.contains(awaited->work)) continue;
      action.events.push_back(
          {.kind = ClockEvent::Kind::kAwait, .token = static_cast<int>(awaited->work)});
    }
  }
  action.host_seconds =
      static_cast<double>(ops) * rules_.host_op.value_or(machine_.device.host_op.value);
  return action;
}

ClockEvent Pricing::compute(const OpCost& cost, ActionKind kind) const {
  const TimePart part = kind == ActionKind::kOptimizerStep ? TimePart::kOptimizer
                        : is_product(cost)                 ? TimePart::kProducts
                        : is_attention(cost)               ? TimePart::kAttention
                                                           : TimePart::kMemory;
  const ProductShape& shape = cost.product;
  const bool is_of_head =
      rules_.head_columns > 0 && (shape.m == rules_.head_columns ||
                                  shape.n == rules_.head_columns || shape.k == rules_.head_columns);
  double seconds = op_seconds(machine_.device, cost,
                              is_of_head ? std::optional<ProductType>() : rules_.products);
  if (is_attention(cost) && !cost.name.starts_with("unfused")) seconds *= rules_.attention;
  return {.part = part, .seconds = seconds};
}

ClockEvent Pricing::begin(int rank, const MessageBegun& message) {
  const TimePart part = part_of_group(message.group->name);
  const ClusterDescription& cluster = machine_.cluster;
  if (part == TimePart::kTensor && rules_.hides_tensor_in_part) {
    return {.part = part, .seconds = cluster.x_tp.value * cost_of(rank, message).seconds};
  }
  return {.kind = ClockEvent::Kind::kBegin,
          .part = part,
          .cost = cost_of(rank, message),
          .token = static_cast<int>(message.work),
          .channel = static_cast<int>(part),
          .meeting = meeting_of(*message.group),
          .slows = part == TimePart::kTensor ? cluster.x_tp.value
                   : part == TimePart::kData ? cluster.x_dp.value
                                             : 0.0};
}

FlowCost Pricing::cost_of(int rank, const MessageBegun& message) const {
  const ClusterDescription& cluster = machine_.cluster;
  const std::vector<int>& ranks = message.group->ranks;
  const int in_node = static_cast<int>(cluster.devices_per_node.value);
  const auto cost = [&](double bytes, bool is_within_node, const auto& seconds) {
    return FlowCost{seconds(bytes), seconds(0.0),
                    is_within_node ? LinkKind::kDevice : LinkKind::kCards};
  };
  const auto bytes = static_cast<double>(message.bytes);
  if (message.op == "send" || message.op == "receive") {
    const int peer = ranks.at(static_cast<std::size_t>(message.peer));
    const bool is_within_node = rank / in_node == peer / in_node;
    return cost(bytes, is_within_node,
                [&](double moved) { return message_seconds(cluster, moved, is_within_node); });
  }
  if (message.op == "barrier") return {};
  const CollectiveKind kind = collective_kind(message.op);
  const GroupPlace place = place_of(ranks, in_node);
  return cost(whole_bytes(kind, bytes, place.ranks), place.nodes() == 1,
              [&](double moved) { return collective_seconds(cluster, kind, moved, place); });
}

int Pricing::meeting_of(const MessageGroup& group) {
  std::set<int> stages;
  for (const int rank : group.ranks) stages.insert(pipeline_rank_(rank));
  if (stages.size() <= 1) return -1;
  const auto [found, is_new] =
      numbers_.try_emplace({group.name, stages}, static_cast<int>(meetings_.size()));
  if (is_new) meetings_.emplace_back(stages.begin(), stages.end());
  return found->second;
}

}  // namespace phalanx
