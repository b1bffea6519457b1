// The part of resolve() that is about ranks which share the rows of every sample.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>

#include "phalanx/families/family.h"
#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr std::string_view kByHeads = "a2a";
constexpr std::string_view kHierarchical = "a2a+p2p";

bool uses(const LayoutConfig& l, std::string_view type) {
  return std::ranges::find(l.cp_comm_type, type) != l.cp_comm_type.end();
}

// "give 1024 or 1032": the multiples around a length.
std::string nearest_multiples(std::int64_t length, std::int64_t multiple) {
  const std::int64_t below = length / multiple * multiple;
  if (below == 0) return fmt::format("give {}", multiple);
  return fmt::format("give {} or {}", below, below + multiple);
}

void check_types(const TrainConfig& c, Faults& faults) {
  const LayoutConfig& l = c.layout;
  const std::int64_t types = std::ssize(l.cp_comm_type);
  if (types != 1 && types != c.model.num_layers) {
    faults.add(fmt::format(
        "--cp-comm-type {}: these are {} words, for --num-layers {}: give one, or one for each "
        "layer",
        fmt::join(l.cp_comm_type, " "), types, c.model.num_layers));
  }
  const auto& sizes = l.hierarchical_context_parallel_sizes;
  if (!sizes.empty() && !uses(l, kHierarchical)) {
    faults.add(fmt::format(
        "--hierarchical-context-parallel-sizes {} is of --cp-comm-type a2a+p2p: leave it out, or "
        "give that",
        fmt::join(sizes, " ")));
  }
}

// The rows of a sample must be 2 P chunks of equal size, and a rank's rows t of them.
void check_rows(const TrainConfig& c, Faults& faults) {
  const LayoutConfig& l = c.layout;
  const std::int64_t ranks = l.context_parallel_size;
  const std::int64_t sequence = c.data.seq_length;
  if (sequence % (2 * ranks) != 0) {
    faults.add(fmt::format(
        "--seq-length {} is not a multiple of {}, twice --context-parallel-size {}: every rank has "
        "two chunks of a sample; {}",
        sequence, 2 * ranks, ranks, nearest_multiples(sequence, 2 * ranks)));
    return;
  }
  const std::int64_t tensor = l.tensor_model_parallel_size;
  if (!l.sequence_parallel || sequence / ranks % tensor == 0) return;
  faults.add(fmt::format(
      "--seq-length {} / --context-parallel-size {} = {} rows of a rank, which "
      "--sequence-parallel cuts, are not a multiple of --tensor-model-parallel-size {}; {}",
      sequence, ranks, sequence / ranks, tensor,
      nearest_multiples(sequence, std::lcm(2 * ranks, ranks * tensor))));
}

// The heads of a tensor-parallel rank must be shared out evenly among `ranks`.
void check_heads(const TrainConfig& c, std::string_view type, std::string_view flag,
                 std::int64_t ranks, Faults& faults) {
  const std::int64_t tensor = c.layout.tensor_model_parallel_size;
  const std::int64_t heads = c.model.num_attention_heads / tensor;
  const std::int64_t groups = std::max<std::int64_t>(1, c.model.num_query_groups / tensor);
  if (heads % ranks != 0) {
    faults.add(fmt::format(
        "--cp-comm-type {}: --num-attention-heads {} / --tensor-model-parallel-size {} = {} heads "
        "are not a multiple of {}, the ranks that share them; give other sizes, or --cp-comm-type "
        "p2p or all_gather",
        type, c.model.num_attention_heads, tensor, heads, flag));
  }
  if (groups % ranks != 0 && ranks % groups != 0) {
    faults.add(fmt::format(
        "--cp-comm-type {}: {} groups of a rank, of --num-query-groups {} with "
        "--tensor-model-parallel-size {}, and {}: one must be a multiple of the other, so that a "
        "rank has whole groups or a part of one; give other sizes, or --cp-comm-type p2p or "
        "all_gather",
        type, groups, c.model.num_query_groups, tensor, flag));
  }
}

void check_hierarchy(const TrainConfig& c, Faults& faults) {
  const LayoutConfig& l = c.layout;
  const std::int64_t ranks = l.context_parallel_size;
  const auto& sizes = l.hierarchical_context_parallel_sizes;
  if (sizes.empty()) {
    faults.add(fmt::format(
        "--cp-comm-type a2a+p2p needs --hierarchical-context-parallel-sizes A B, whose product is "
        "--context-parallel-size {}: ranks that exchange heads, and groups of them",
        ranks));
    return;
  }
  const bool are_sizes = sizes.size() == 2 && std::ranges::all_of(sizes, [&](std::int64_t size) {
                           return size >= 1 && size <= ranks;
                         });
  if (!are_sizes || sizes[0] * sizes[1] != ranks) {
    faults.add(
        fmt::format("--hierarchical-context-parallel-sizes {}: give two sizes whose product is "
                    "--context-parallel-size {}",
                    fmt::join(sizes, " "), ranks));
    return;
  }
  check_heads(c, kHierarchical,
              fmt::format("the {} of --hierarchical-context-parallel-sizes", sizes[0]), sizes[0],
              faults);
}

}  // namespace

void check_context_parallelism(const TrainConfig& c, Faults& faults) {
  const LayoutConfig& l = c.layout;
  check_types(c, faults);
  if (l.context_parallel_cut == "documents" && !packs_documents(c.data)) {
    faults.add(
        "--context-parallel-cut documents needs samples of whole documents: give --pack-documents "
        "best-fit or greedy, or --context-parallel-cut sequence");
  }
  const std::int64_t ranks = l.context_parallel_size;
  if (ranks == 1) return;
  if (!family_of(c).has_context_parallelism()) {
    faults.add(fmt::format(
        "--context-parallel-size {}: only a GPT's samples are shared out among ranks, not those of "
        "a {}: give 1",
        ranks, family_of(c).title()));
    return;
  }
  check_rows(c, faults);
  if (c.model.attention_backend == "unfused") {
    faults.add(fmt::format(
        "--attention-backend unfused and --context-parallel-size {}: the parts of a row that "
        "ranks compute are put together by numbers that only fused attention gives: give "
        "--attention-backend fused",
        ranks));
  }
  // Heads that tensor parallelism cannot cut are told elsewhere.
  if (c.model.num_attention_heads % l.tensor_model_parallel_size != 0) return;
  if (uses(l, kByHeads)) {
    check_heads(c, kByHeads, fmt::format("--context-parallel-size {}", ranks), ranks, faults);
  }
  if (uses(l, kHierarchical)) check_hierarchy(c, faults);
}

}  // namespace phalanx
