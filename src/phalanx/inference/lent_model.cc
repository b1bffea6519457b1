#include "phalanx/inference/lent_model.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/inference/cached_model.h"
#include "phalanx/inference/cached_rank.h"

namespace phalanx {
namespace {

// Hands out a tensor's bytes, part after part.
class TensorMemory final : public ArenaMemory {
 public:
  TensorMemory(const Tensor& tensor, MemorySpace space, std::byte* base)
      : space_(space), next_(base), left_(tensor.count()) {}

  MemorySpace space() const override { return space_; }
  std::byte* reserve(std::string_view arena, std::int64_t bytes) override {
    const std::int64_t taken = round_up(bytes, kArenaAlignment);
    PHALANX_CHECK(taken <= left_, "the arena {} takes {} bytes of {} that are left", arena, taken,
                  left_);
    left_ -= taken;
    return std::exchange(next_, next_ + taken);
  }
  void give_back(std::byte* /*base*/, std::int64_t /*bytes*/) noexcept override {}

 private:
  MemorySpace space_;
  std::byte* next_;
  std::int64_t left_;
};

std::array<const Arena*, 4> parts(const InferenceArenas& arenas) {
  return {&arenas.constants, &arenas.cache, &arenas.transient, &arenas.workspace};
}

// What a model of these sizes takes, without weights.
std::unique_ptr<CachedRank> rehearsed(const GptConfig& model, std::int64_t capacity,
                                      const DeviceChoice& device, int threads) {
  auto rank = std::make_unique<CachedRank>(model, capacity, 1,
                                           InferenceResources::planning(threads, device), nullptr);
  // Texts of any length.
  std::vector<std::int64_t> reads(static_cast<std::size_t>(std::min(capacity, kMostReadAtOnce)));
  std::iota(reads.begin(), reads.end(), 1);
  rehearse(*rank, reads);
  return rank;
}

}  // namespace

std::int64_t LentModel::bytes(const GptConfig& model, std::int64_t capacity,
                              const DeviceChoice& device, int threads) {
  const auto rank = rehearsed(model, capacity, device, threads);
  std::int64_t bytes = 0;
  for (const Arena* arena : parts(rank->model().arenas())) {
    bytes += round_up(arena->high_water(), kArenaAlignment);
  }
  return bytes;
}

LentModel::LentModel(const GptConfig& model, std::int64_t capacity, const DeviceChoice& device,
                     int threads, const Lender& lender, const Tensor& memory)
    : vocabulary_(model.vocabulary) {
  const auto plan = rehearsed(model, capacity, device, threads);
  auto own = std::make_unique<TensorMemory>(memory, memory.space, memory.address());
  const auto like = [&](const Arena& arena) {
    return Arena(arena.name(), arena.high_water(), *own);
  };
  const InferenceArenas& planned = plan->model().arenas();
  InferenceArenas arenas{Arena("parameters", 0, *own), like(planned.constants), like(planned.cache),
                         like(planned.transient), like(planned.workspace)};
  rank_ = std::make_unique<CachedRank>(
      model, capacity, 1,
      InferenceResources{
          std::move(own),
          nullptr,
          std::move(arenas),
          {.backend = &lender.backend, .table = &lender.table, .weights = lender.weights}},
      nullptr);
}

LentModel::~LentModel() = default;

std::int64_t LentModel::capacity() const { return rank_->capacity(); }

void LentModel::truncate(int sequence, std::int64_t length) {
  PHALANX_CHECK(sequence == 0 && length >= 0 && length <= length_, "{} of {} positions", length,
                length_);
  length_ = length;
}

void LentModel::copy(int from, int to) {
  PHALANX_CHECK(from == 0 && to == 0, "sequence {} of one", std::max(from, to));
}

std::vector<float> LentModel::read(int sequence, std::span<const std::int32_t> tokens) {
  PHALANX_CHECK(sequence == 0 && !tokens.empty() && length_ + std::ssize(tokens) <= capacity(),
                "{} tokens behind {} of {} positions", tokens.size(), length_, capacity());
  std::vector<float> logits(static_cast<std::size_t>(vocabulary_));
  while (!tokens.empty()) {
    const auto piece =
        tokens.first(std::min(tokens.size(), static_cast<std::size_t>(kMostReadAtOnce)));
    rank_->read(0, piece, length_, logits);
    length_ += std::ssize(piece);
    tokens = tokens.subspan(piece.size());
  }
  return logits;
}

std::vector<float> LentModel::step(std::span<const Next> next) {
  PHALANX_CHECK(next.size() == 1 && length_ < capacity(), "{} tokens behind {} of {} positions",
                next.size(), length_, capacity());
  std::vector<float> logits(static_cast<std::size_t>(vocabulary_));
  rank_->step(next, std::array{length_}, logits);
  ++length_;
  return logits;
}

}  // namespace phalanx
