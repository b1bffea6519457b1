#include "phalanx/inference/cached_model.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "phalanx/comm/local/local_team.h"
#include "phalanx/comm/meta/meta_communicator.h"
#include "phalanx/inference/cached_rank.h"

namespace phalanx {

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
  rehearsal_ = std::make_unique<CachedRank>(model_, sizes_.capacity, sizes_.sequences,
                                            InferenceResources::planning(threads_, device_),
                                            planning_group_.get());
  rehearse(*rehearsal_, sizes_.reads);
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
    ranks_[static_cast<std::size_t>(world.rank())] = std::make_unique<CachedRank>(
        model_, sizes_.capacity, sizes_.sequences,
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
