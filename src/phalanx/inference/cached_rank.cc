#include "phalanx/inference/cached_rank.h"

#include <set>

#include "phalanx/base/text_batches.h"
#include "phalanx/inference/cached_model.h"
#include "phalanx/model/batch_binding.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {

CachedRank::CachedRank(const GptConfig& config, std::int64_t capacity, int sequences,
                       InferenceResources resources, Communicator* group)
    : model_(
          *GptModel(config, capacity).placed({.tensor_rank = group == nullptr ? 0 : group->rank()}),
          std::move(resources), group),
      schema_(gpt_batch_schema(1)),
      vocabulary_(config.vocabulary) {
  const nn::TransformerConfig& t = config.transformer;
  Arena& arena = model_.arenas().cache;
  const Shape extents{capacity, 1, t.local_query_groups(), t.head_size};
  caches_.resize(static_cast<std::size_t>(sequences));
  for (nn::KeyValueCache& cache : caches_) {
    for (std::int64_t layer = 0; layer < t.num_layers; ++layer) {
      cache.keys.push_back(arena.allocate(t.dtype, extents));
      cache.values.push_back(arena.allocate(t.dtype, extents));
    }
  }
  cache_bytes_ = arena.high_water();
  rows_ = allocate_rows(arena, capacity);
  for (nn::KeyValueCache& cache : caches_) cache.rows = rows_;
  std::vector<std::int32_t> positions(static_cast<std::size_t>(capacity));
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
  model_.upload(rows_.sample, std::vector<std::int64_t>(positions.size(), 0));
  model_.upload(rows_.position, positions);
  model_.upload(rows_.document, std::vector<std::int32_t>(positions.size(), 0));
}

void CachedRank::read(int sequence, std::span<const std::int32_t> tokens, std::int64_t begin,
                      std::span<float> logits) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const WorkspaceScope scope(model_.arenas().workspace);
  const RowCoordinates rows = {.sample = rows_.sample.slice(0, begin, count),
                               .position = rows_.position.slice(0, begin, count),
                               .document = rows_.document.slice(0, begin, count)};
  nn::KeyValueCache& cache = caches_[static_cast<std::size_t>(sequence)];
  cache.length = begin;
  nn::KeyValueCache* const caches[] = {&cache};
  pass(tokens, {count, 1}, rows, caches, logits);
}

void CachedRank::step(std::span<const Next> next, std::span<const std::int64_t> positions,
                      std::span<float> logits) {
  const auto count = static_cast<std::int64_t>(next.size());
  const Shape extents{1, count};
  Arena& workspace = model_.arenas().workspace;
  const WorkspaceScope scope(workspace);
  const RowCoordinates rows = {.sample = workspace.allocate(DType::kI64, extents),
                               .position = workspace.allocate(DType::kI32, extents),
                               .document = workspace.allocate(DType::kI32, extents)};
  std::vector<std::int32_t> tokens;
  std::vector<nn::KeyValueCache*> caches;
  for (std::size_t i = 0; i < next.size(); ++i) {
    tokens.push_back(next[i].token);
    caches.push_back(&caches_[static_cast<std::size_t>(next[i].sequence)]);
    caches.back()->length = positions[i];
  }
  model_.upload(rows.sample, std::vector<std::int64_t>(next.size(), 0));
  model_.upload(rows.position, std::vector<std::int32_t>(positions.begin(), positions.end()));
  model_.upload(rows.document, std::vector<std::int32_t>(next.size(), 0));
  pass(tokens, extents, rows, caches, logits);
}

void CachedRank::copy(int from, int to, std::int64_t length) {
  const nn::KeyValueCache& source = caches_[static_cast<std::size_t>(from)];
  const nn::KeyValueCache& destination = caches_[static_cast<std::size_t>(to)];
  const auto replace = [&](const std::vector<Tensor>& old, const std::vector<Tensor>& with) {
    for (std::size_t layer = 0; layer < old.size(); ++layer) {
      ops::copy(model_.context(), {.destination = old[layer].slice(0, 0, length),
                                   .source = with[layer].slice(0, 0, length)});
    }
  };
  replace(destination.keys, source.keys);
  replace(destination.values, source.values);
}

void CachedRank::pass(std::span<const std::int32_t> tokens, const Shape& extents,
                      const RowCoordinates& rows, std::span<nn::KeyValueCache* const> caches,
                      std::span<float> logits) {
  Arena& workspace = model_.arenas().workspace;
  const Tensor ids = workspace.allocate(DType::kI32, extents);
  model_.upload(ids, std::vector<std::int32_t>(tokens.begin(), tokens.end()));
  std::vector<Tensor> columns(schema_.columns().size());
  columns[schema_.index("tokens")] = ids;
  columns[schema_.index("position_ids")] = rows.position;
  columns[schema_.index("sample")] = rows.sample;
  columns[schema_.index("position")] = rows.position;
  columns[schema_.index("document")] = rows.document;
  const auto samples = static_cast<std::int64_t>(caches.size());
  const Tensor last = workspace.allocate(DType::kF32, {samples, model_.padded_vocabulary()});
  model_.infer(bind_batch(schema_, std::move(columns)), {.caches = caches, .logits = last});
  for (std::int64_t i = 0; i < samples && !logits.empty(); ++i) {
    model_.read_back(last.select(0, i).slice(0, 0, vocabulary_),
                     logits.subspan(static_cast<std::size_t>(i * vocabulary_),
                                    static_cast<std::size_t>(vocabulary_)));
  }
}

void rehearse(CachedRank& rank, std::span<const std::int64_t> reads) {
  const std::int64_t capacity = rank.capacity();
  std::set<std::int64_t> pieces;
  for (const std::int64_t length : reads) {
    PHALANX_CHECK(length > 0 && length <= capacity, "{} tokens in {} positions", length, capacity);
    if (length >= kMostReadAtOnce) pieces.insert(kMostReadAtOnce);
    if (length % kMostReadAtOnce > 0) pieces.insert(length % kMostReadAtOnce);
  }
  // A piece takes most where most positions are before it.
  for (const std::int64_t count : pieces) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(count), 0);
    rank.read(0, tokens, capacity - count, {});
  }
  for (int count = 1; count <= rank.sequences(); ++count) {
    std::vector<CachedRank::Next> next;
    for (int i = 0; i < count; ++i) next.push_back({.sequence = i, .token = 0});
    rank.step(next, std::vector<std::int64_t>(static_cast<std::size_t>(count), capacity - 1), {});
  }
}

}  // namespace phalanx
