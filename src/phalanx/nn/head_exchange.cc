#include "phalanx/nn/head_exchange.h"

#include <algorithm>

#include "phalanx/nn/context_rows.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {

HeadExchange::HeadExchange(const TransformerConfig& config, int ranks)
    : ranks_(ranks),
      in_chunks_(config.context.in_chunks),
      dtype_(config.dtype),
      head_size_(config.head_size),
      heads_(config.local_heads() / ranks),
      groups_(std::max<std::int64_t>(1, config.local_query_groups() / ranks)),
      sharers_(static_cast<int>(std::max<std::int64_t>(1, ranks / config.local_query_groups()))) {
  const std::int64_t all_groups = config.local_query_groups();
  PHALANX_CHECK(
      config.local_heads() % ranks == 0 && (all_groups % ranks == 0 || ranks % all_groups == 0),
      "{} heads in {} groups exchanged between {} ranks", config.local_heads(), all_groups, ranks);
}

AttentionCore::Heads HeadExchange::parts_of(const Tensor& fused) {
  const std::int64_t per_group = fused.shape[3] - 2;
  return {.query = fused.slice(3, 0, per_group),
          .key = fused.select(3, per_group),
          .value = fused.select(3, per_group + 1)};
}

AttentionCore::Heads HeadExchange::split(const Tensor& fused) const {
  return parts_of(
      fused.reshape({fused.shape[0], fused.shape[1], groups_, heads_ / groups_ + 2, head_size_}));
}

Tensor HeadExchange::query_share(const Tensor& queries, int rank) const {
  if (has_whole_groups()) return queries.slice(2, rank * groups_, groups_);
  return queries.slice(2, rank / sharers_, 1).slice(3, rank % sharers_ * heads_, heads_);
}

AttentionCore::Heads HeadExchange::share(const AttentionCore::Heads& by_rows, int rank) const {
  const std::int64_t group = rank / sharers_ * groups_;
  return {.query = query_share(by_rows.query, rank),
          .key = by_rows.key.slice(2, group, groups_),
          .value = by_rows.value.slice(2, group, groups_)};
}

void HeadExchange::copy(Pass& pass, const AttentionCore::Heads& to,
                        const AttentionCore::Heads& from) {
  ops::copy(pass.ops, {.destination = to.query, .source = from.query});
  ops::copy(pass.ops, {.destination = to.key, .source = from.key});
  ops::copy(pass.ops, {.destination = to.value, .source = from.value});
}

Tensor HeadExchange::exchanged(Pass& pass, Communicator& group, const Tensor& given) {
  const Tensor taken = pass.scratch(given.dtype, given.shape);
  pass.finish(group.all_to_all(pass.ops, taken, given));
  return taken;
}

void HeadExchange::to_heads(Pass& pass, Communicator& group, const Tensor& fused,
                            const AttentionCore::Heads& by_rows) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const std::int64_t rows = by_rows.key.shape[0];
  const Shape extents{ranks_ * rows, by_rows.key.shape[1], groups_, heads_ / groups_ + 2,
                      head_size_};
  const Tensor given = pass.scratch(dtype_, extents);
  for (int rank = 0; rank < ranks_; ++rank) {
    copy(pass, parts_of(given.slice(0, rank * rows, rows)), share(by_rows, rank));
  }
  const Tensor taken = exchanged(pass, group, given);
  to_sample_order(pass, fused.reshape(extents), taken, ranks_, in_chunks_);
}

void HeadExchange::output_to_heads(Pass& pass, Communicator& group, const Tensor& by_heads,
                                   const Tensor& by_rows) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const std::int64_t rows = by_rows.shape[0];
  const Tensor given = pass.scratch(dtype_, by_heads.shape);
  for (int rank = 0; rank < ranks_; ++rank) {
    ops::copy(pass.ops, {.destination = given.slice(0, rank * rows, rows),
                         .source = by_rows.slice(2, rank * heads_, heads_)});
  }
  const Tensor taken = exchanged(pass, group, given);
  to_sample_order(pass, by_heads, taken, ranks_, in_chunks_);
}

void HeadExchange::output_to_rows(Pass& pass, Communicator& group, const Tensor& by_rows,
                                  const Tensor& by_heads) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const std::int64_t rows = by_rows.shape[0];
  const Tensor given = pass.scratch(dtype_, by_heads.shape);
  to_rank_order(pass, given, by_heads, ranks_, in_chunks_);
  const Tensor taken = exchanged(pass, group, given);
  for (int rank = 0; rank < ranks_; ++rank) {
    ops::copy(pass.ops, {.destination = by_rows.slice(2, rank * heads_, heads_),
                         .source = taken.slice(0, rank * rows, rows)});
  }
}

void HeadExchange::statistic_to_heads(Pass& pass, Communicator& group, const Tensor& by_heads,
                                      const Tensor& by_rows) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const auto [samples, rows] = std::pair(by_rows.shape[0], by_rows.shape[2]);
  const Shape extents{ranks_, samples, heads_, rows};
  const Tensor given = pass.scratch(by_rows.dtype, extents);
  for (int rank = 0; rank < ranks_; ++rank) {
    ops::copy(pass.ops, {.destination = given.select(0, rank),
                         .source = by_rows.slice(1, rank * heads_, heads_)});
  }
  const Tensor taken = exchanged(pass, group, given);
  for (const RowRun& run : row_runs(ranks_, rows, in_chunks_)) {
    ops::copy(pass.ops, {.destination = by_heads.slice(2, run.place, run.count),
                         .source = taken.select(0, run.part).slice(2, run.first, run.count)});
  }
}

void HeadExchange::gradients_to_rows(Pass& pass, Communicator& group,
                                     const AttentionCore::Heads& by_rows,
                                     const AttentionCore::Heads& by_heads) const {
  if (has_whole_groups()) return whole_gradients_to_rows(pass, group, by_rows, by_heads);
  const WorkspaceScope scope(pass.ops.workspace);
  const std::int64_t rows = by_rows.key.shape[0];
  const Tensor given = pass.scratch(dtype_, by_heads.query.shape);
  to_rank_order(pass, given, by_heads.query, ranks_, in_chunks_);
  const Tensor taken = exchanged(pass, group, given);
  for (int rank = 0; rank < ranks_; ++rank) {
    ops::copy(pass.ops, {.destination = query_share(by_rows.query, rank),
                         .source = taken.slice(0, rank * rows, rows)});
  }
  shared_gradients_to_rows(pass, group, by_rows.key, by_rows.value, by_heads);
}

void HeadExchange::whole_gradients_to_rows(Pass& pass, Communicator& group,
                                           const AttentionCore::Heads& by_rows,
                                           const AttentionCore::Heads& by_heads) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const std::int64_t rows = by_rows.key.shape[0];
  const Shape extents{ranks_ * rows, by_rows.key.shape[1], groups_, heads_ / groups_ + 2,
                      head_size_};
  const Tensor given = pass.scratch(dtype_, extents);
  const AttentionCore::Heads parts = parts_of(given);
  to_rank_order(pass, parts.query, by_heads.query, ranks_, in_chunks_);
  to_rank_order(pass, parts.key, by_heads.key, ranks_, in_chunks_);
  to_rank_order(pass, parts.value, by_heads.value, ranks_, in_chunks_);
  const Tensor taken = exchanged(pass, group, given);
  for (int rank = 0; rank < ranks_; ++rank) {
    copy(pass, share(by_rows, rank), parts_of(taken.slice(0, rank * rows, rows)));
  }
}

void HeadExchange::shared_gradients_to_rows(Pass& pass, Communicator& group, const Tensor& key,
                                            const Tensor& value,
                                            const AttentionCore::Heads& by_heads) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const std::int64_t rows = key.shape[0];
  const Shape extents{ranks_, 2, rows, key.shape[1], head_size_};
  const Tensor given = pass.scratch(by_heads.key.dtype, extents);
  for (const RowRun& run : row_runs(ranks_, rows, in_chunks_)) {
    const Tensor part = given.select(0, run.part).slice(1, run.first, run.count);
    ops::copy(pass.ops, {.destination = part.select(0, 0),
                         .source = by_heads.key.slice(0, run.place, run.count).select(2, 0)});
    ops::copy(pass.ops, {.destination = part.select(0, 1),
                         .source = by_heads.value.slice(0, run.place, run.count).select(2, 0)});
  }
  const Tensor taken = exchanged(pass, group, given);
  for (int first = 0; first < ranks_; first += sharers_) {
    const Tensor sum = taken.select(0, first);
    for (int rank = first + 1; rank < first + sharers_; ++rank) {
      ops::accumulate(pass.ops, {.destination = sum, .source = taken.select(0, rank)});
    }
    const std::int64_t of_group = first / sharers_;
    ops::copy(pass.ops, {.destination = key.select(2, of_group), .source = sum.select(0, 0)});
    ops::copy(pass.ops, {.destination = value.select(2, of_group), .source = sum.select(0, 1)});
  }
}

}  // namespace phalanx::nn
