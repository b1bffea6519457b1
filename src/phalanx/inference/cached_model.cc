#include "phalanx/inference/cached_model.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "phalanx/base/text_batches.h"
#include "phalanx/comm/local/local_team.h"
#include "phalanx/comm/meta/meta_communicator.h"
#include "phalanx/inference/inference_model.h"
#include "phalanx/model/batch_binding.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {

// One rank's part of the model, with its caches.
class CachedModel::Rank {
 public:
  // `group` is null where there is one rank.
  Rank(const GptConfig& config, const Sizes& sizes, InferenceResources resources,
       Communicator* group)
      : model_(*GptModel(config, sizes.capacity).placed(group == nullptr ? 0 : group->rank()),
               std::move(resources), group),
        schema_(gpt_batch_schema(1)),
        vocabulary_(config.vocabulary) {
    const nn::TransformerConfig& t = config.transformer;
    Arena& arena = model_.arenas().cache;
    const Shape extents{sizes.capacity, 1, t.local_query_groups(), t.head_size};
    caches_.resize(static_cast<std::size_t>(sizes.sequences));
    for (nn::KeyValueCache& cache : caches_) {
      for (std::int64_t layer = 0; layer < t.num_layers; ++layer) {
        cache.keys.push_back(arena.allocate(t.dtype, extents));
        cache.values.push_back(arena.allocate(t.dtype, extents));
      }
    }
    cache_bytes_ = arena.high_water();
    rows_ = allocate_rows(arena, sizes.capacity);
    for (nn::KeyValueCache& cache : caches_) cache.rows = rows_;
    std::vector<std::int32_t> positions(static_cast<std::size_t>(sizes.capacity));
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
    model_.upload(rows_.sample, std::vector<std::int64_t>(positions.size(), 0));
    model_.upload(rows_.position, positions);
    model_.upload(rows_.document, std::vector<std::int32_t>(positions.size(), 0));
  }

  InferenceModel& model() { return model_; }
  std::int64_t cache_bytes() const { return cache_bytes_; }

  // Tokens of one sequence from position `begin` on. `logits` is empty where they are not wanted,
  // as on all ranks but the first.
  void read(int sequence, std::span<const std::int32_t> tokens, std::int64_t begin,
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

  // One token of each of some sequences, at these positions.
  void step(std::span<const Next> next, std::span<const std::int64_t> positions,
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

  void copy(int from, int to, std::int64_t length) {
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

 private:
  void pass(std::span<const std::int32_t> tokens, const Shape& extents, const RowCoordinates& rows,
            std::span<nn::KeyValueCache* const> caches, std::span<float> logits) {
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

  InferenceModel model_;
  BatchSchema schema_;
  std::int64_t vocabulary_;
  std::vector<nn::KeyValueCache> caches_;
  std::int64_t cache_bytes_ = 0;
  RowCoordinates rows_;
};

CachedModel::CachedModel(GptConfig model, const DeviceChoice& device, int threads_per_rank,
                         Sizes sizes)
    : model_(std::move(model)),
      device_(device),
      threads_(threads_per_rank),
      sizes_(std::move(sizes)),
      lengths_(static_cast<std::size_t>(sizes_.sequences), 0) {
  sizes_.capacity = std::min(sizes_.capacity, model_.max_positions);
  PHALANX_CHECK(sizes_.sequences > 0 && sizes_.capacity > 0, "{} sequences of {} positions",
                sizes_.sequences, sizes_.capacity);
  const int ranks = model_.transformer.tensor.size;
  if (ranks > 1) planning_group_ = make_meta_world(0, ranks);
  rehearsal_ = std::make_unique<Rank>(
      model_, sizes_, InferenceResources::planning(threads_, device_), planning_group_.get());
  std::set<std::int64_t> pieces;
  for (const std::int64_t length : sizes_.reads) {
    PHALANX_CHECK(length > 0 && length <= sizes_.capacity, "{} tokens in {} positions", length,
                  sizes_.capacity);
    if (length >= kPiece) pieces.insert(kPiece);
    if (length % kPiece > 0) pieces.insert(length % kPiece);
  }
  // A piece takes most where most positions are before it.
  for (const std::int64_t count : pieces) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(count), 0);
    rehearsal_->read(0, tokens, sizes_.capacity - count, {});
  }
  for (int count = 1; count <= sizes_.sequences; ++count) {
    std::vector<Next> next;
    for (int i = 0; i < count; ++i) next.push_back({.sequence = i, .token = 0});
    rehearsal_->step(
        next, std::vector<std::int64_t>(static_cast<std::size_t>(count), sizes_.capacity - 1), {});
  }
  const InferenceArenas& arenas = rehearsal_->model().arenas();
  memory_ = {.parameters = arenas.parameters.high_water(),
             .cache = rehearsal_->cache_bytes(),
             .constants = arenas.constants.high_water() + arenas.cache.high_water() -
                          rehearsal_->cache_bytes(),
             .workspace = arenas.transient.high_water() + arenas.workspace.high_water(),
             .ranks = ranks};
}

CachedModel::~CachedModel() = default;

void CachedModel::start() {
  PHALANX_CHECK(team_ == nullptr, "a model that has its weights");
  team_ = std::make_unique<LocalTeam>(memory_.ranks, LocalOptions{.threads_per_rank = threads_});
  ranks_.resize(static_cast<std::size_t>(memory_.ranks));
  team_->run([&](Communicator& world) {
    ranks_[static_cast<std::size_t>(world.rank())] = std::make_unique<Rank>(
        model_, sizes_,
        InferenceResources::allocate(threads_, device_, rehearsal_->model().arenas()),
        memory_.ranks > 1 ? &world : nullptr);
  });
  rehearsal_.reset();
}

void CachedModel::load(const CheckpointReader& checkpoint) {
  start();
  team_->run([&](Communicator& world) {
    ranks_[static_cast<std::size_t>(world.rank())]->model().load(checkpoint);
  });
}

void CachedModel::initialise() {
  start();
  team_->run([&](Communicator& world) {
    ranks_[static_cast<std::size_t>(world.rank())]->model().initialise(model_.transformer.init_key);
  });
}

void CachedModel::truncate(int sequence, std::int64_t length) {
  std::int64_t& now = lengths_[static_cast<std::size_t>(sequence)];
  PHALANX_CHECK(length >= 0 && length <= now, "{} of {} positions", length, now);
  now = length;
}

void CachedModel::copy(int from, int to) {
  if (from == to) return;
  const std::int64_t count = length(from);
  lengths_[static_cast<std::size_t>(to)] = count;
  if (count == 0) return;
  team_->run([&](Communicator& world) {
    ranks_[static_cast<std::size_t>(world.rank())]->copy(from, to, count);
  });
}

std::vector<float> CachedModel::read(int sequence, std::span<const std::int32_t> tokens) {
  std::int64_t& length = lengths_[static_cast<std::size_t>(sequence)];
  PHALANX_CHECK(!tokens.empty() && length + std::ssize(tokens) <= capacity(),
                "{} tokens behind {} of {} positions", tokens.size(), length, capacity());
  std::vector<float> logits(static_cast<std::size_t>(vocabulary()));
  while (!tokens.empty()) {
    const auto piece = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(kPiece)));
    team_->run([&](Communicator& world) {
      ranks_[static_cast<std::size_t>(world.rank())]->read(
          sequence, piece, length, world.rank() == 0 ? std::span(logits) : std::span<float>());
    });
    length += std::ssize(piece);
    tokens = tokens.subspan(piece.size());
  }
  return logits;
}

std::vector<float> CachedModel::step(std::span<const Next> next) {
  PHALANX_CHECK(!next.empty() && std::ssize(next) <= sequences(), "{} of {} sequences", next.size(),
                sequences());
  std::vector<std::int64_t> positions;
  for (const Next& one : next) {
    PHALANX_CHECK(length(one.sequence) < capacity(), "sequence {} has all {} positions",
                  one.sequence, capacity());
    positions.push_back(length(one.sequence));
  }
  std::vector<float> logits(next.size() * static_cast<std::size_t>(vocabulary()));
  team_->run([&](Communicator& world) {
    ranks_[static_cast<std::size_t>(world.rank())]->step(
        next, positions, world.rank() == 0 ? std::span(logits) : std::span<float>());
  });
  for (const Next& one : next) ++lengths_[static_cast<std::size_t>(one.sequence)];
  return logits;
}

}  // namespace phalanx
