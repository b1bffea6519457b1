#include "phalanx/planner/expert_messages.h"

#include <fmt/core.h>

#include "phalanx/base/numeric.h"
#include "phalanx/nn/config.h"
#include "phalanx/settings/expert_views.h"

namespace phalanx {
namespace {

std::int64_t sequence_shards(const LayoutConfig& layout) {
  return layout.context_parallel_size *
         (layout.sequence_parallel ? layout.tensor_model_parallel_size : 1);
}

std::int64_t tokens_of_rank(const TrainConfig& c) {
  return c.data.seq_length / sequence_shards(c.layout) * c.layout.micro_batch_size;
}

// Every pair goes to all ranks of its expert but the rank itself.
ExpertMessages all_to_all_messages(const TrainConfig& c, std::int64_t element, std::int64_t full) {
  const LayoutConfig& l = c.layout;
  const std::int64_t ranks = l.expert_model_parallel_size * l.expert_tensor_parallel_size;
  const std::int64_t home = expert_rows(c).home;
  const bool is_bound = home != tokens_of_rank(c) * c.experts.moe_router_topk ||
                        c.experts.moe_pad_expert_input_to_capacity;
  const auto message = [&](bool has_numbers) {
    const std::int64_t row = element * c.model.hidden_size + (has_numbers ? full : 0);
    return ExpertMessage{
        .formula = fmt::format("{} (e etp - 1) / e ({} h{})", is_bound ? "E C" : "T k", element,
                               has_numbers ? fmt::format(" + {}", full) : ""),
        .bytes = home * (ranks - 1) * row / l.expert_model_parallel_size};
  };
  return {.dispatch = message(true),
          .dispatch_backward = message(false),
          .combine = message(false),
          .combine_backward = message(true)};
}

// Tokens, their probabilities and numbers of experts are gathered, sums over all ranks' tokens are
// scattered; those of gradients are in full precision.
ExpertMessages all_gather_messages(const TrainConfig& c, std::int64_t element, std::int64_t full) {
  const std::int64_t tokens = tokens_of_rank(c);
  const std::int64_t chosen = c.experts.moe_router_topk;
  const std::int64_t hidden = c.model.hidden_size;
  const std::int64_t numbers = full + size_of(DType::kI32);
  const std::int64_t all =
      c.layout.expert_model_parallel_size * c.layout.expert_tensor_parallel_size * tokens;
  return {
      .dispatch = {.formula = fmt::format("T ({} h + {} k)", element, numbers),
                   .bytes = tokens * (element * hidden + numbers * chosen)},
      .dispatch_backward = {.formula = fmt::format("T {} h", element),
                            .bytes = tokens * element * hidden},
      .combine = {.formula = fmt::format("e etp T {} h", element), .bytes = all * element * hidden},
      .combine_backward = {.formula = fmt::format("e etp T {} (h + k)", full),
                           .bytes = all * full * (hidden + chosen)}};
}

}  // namespace

std::optional<ExpertMessages> expert_messages(const TrainConfig& c, DType dtype) {
  const LayoutConfig& l = c.layout;
  if (c.experts.num_experts == 0) return {};
  if (l.expert_model_parallel_size * l.expert_tensor_parallel_size == 1) return {};
  const std::int64_t element = size_of(dtype);
  const std::int64_t full = size_of(nn::full_precision(dtype));
  return c.experts.moe_token_dispatcher_type == "allgather" ? all_gather_messages(c, element, full)
                                                            : all_to_all_messages(c, element, full);
}

std::string to_text(const ExpertMessages& messages, const TrainConfig& c) {
  const LayoutConfig& l = c.layout;
  const auto line = [](const char* name, const ExpertMessage& forward,
                       const ExpertMessage& backward) {
    return fmt::format("  {:<8} {} = {} B, backward {} = {} B\n", name, forward.formula,
                       format_count(forward.bytes), backward.formula, format_count(backward.bytes));
  };
  return fmt::format(
             "of these, in each pass of a layer with experts over a microbatch, if all experts "
             "have equally many rows (T = s b / {} = {} tokens, k {}, h {}, e {}, etp {}):\n",
             sequence_shards(l), tokens_of_rank(c), c.experts.moe_router_topk, c.model.hidden_size,
             l.expert_model_parallel_size, l.expert_tensor_parallel_size) +
         line("dispatch", messages.dispatch, messages.dispatch_backward) +
         line("combine", messages.combine, messages.combine_backward);
}

}  // namespace phalanx
