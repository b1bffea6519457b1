#pragma once
// The global batch of an iteration as a function of the samples consumed before it: always the
// same, rising in equal steps (Megatron's --rampup-batch-size), or any table
// (--step-batch-size-schedule). Nothing else decides it, so a run that resumes goes on with the
// batch it would have had.

#include <cstdint>
#include <optional>
#include <vector>

namespace phalanx {

class BatchSchedule {
 public:
  // The piece begins when this many samples have been consumed, and ends where the next one begins.
  struct Piece {
    std::int64_t from = 0;
    std::int64_t batch = 1;  // samples
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  // START INCREMENT SAMPLES of --rampup-batch-size.
  struct Rampup {
    std::int64_t start = 1;
    std::int64_t increment = 1;
    std::int64_t samples = 1;
  };

  // The first piece begins at 0; they are in ascending order.
  explicit BatchSchedule(const std::vector<Piece>& pieces);
  explicit BatchSchedule(std::int64_t batch)
      : BatchSchedule(std::vector<Piece>{{.from = 0, .batch = batch}}) {}
  // Megatron's formula: during the ramp START + n INCREMENT, with n the whole part of consumed /
  // (samples / increments), in doubles; `global_batch` after it. `global_batch` must be START plus
  // a whole number of INCREMENTs.
  BatchSchedule(const Rampup& rampup, std::int64_t global_batch);

  std::int64_t at(std::int64_t consumed_samples) const;
  // The next number of consumed samples at which the batch changes.
  std::optional<std::int64_t> next_change(std::int64_t consumed_samples) const;
  // How many iterations in a row have the batch that it is now; nothing where it changes no more.
  std::optional<std::int64_t> iterations_alike(std::int64_t consumed_samples) const;
  // The samples of the next iterations. What is counted in iterations becomes samples here, since
  // no single batch holds for all of them.
  std::int64_t samples_of(std::int64_t iterations, std::int64_t consumed_samples = 0) const;
  // The fewest iterations, from the first on, that consume at least this many samples.
  std::int64_t iterations_for(std::int64_t samples) const;
  // The batch of the last piece.
  std::int64_t last() const { return pieces_.back().batch; }
  std::int64_t smallest() const;
  std::int64_t largest() const;
  // Neighbouring pieces have different batches.
  const std::vector<Piece>& pieces() const { return pieces_; }
  // The same schedule with every batch rounded down to a multiple of `divisor`.
  BatchSchedule rounded_down(std::int64_t divisor) const;

 private:
  std::vector<Piece> pieces_;
};

}  // namespace phalanx
