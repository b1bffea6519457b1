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
  // From this many consumed samples on, until the next piece.
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

  // Pieces begin at 0 and further and further on.
  explicit BatchSchedule(const std::vector<Piece>& pieces);
  explicit BatchSchedule(std::int64_t batch)
      : BatchSchedule(std::vector<Piece>{{.from = 0, .batch = batch}}) {}
  // Megatron's formula: `global_batch` behind the ramp's samples, until then START + n INCREMENT
  // with n the whole part of consumed / (samples / increments), in doubles. `global_batch` must be
  // START and whole INCREMENTs.
  BatchSchedule(const Rampup& rampup, std::int64_t global_batch);

  std::int64_t at(std::int64_t consumed_samples) const;
  // The first count of consumed samples behind this one at which the batch is another.
  std::optional<std::int64_t> next_change(std::int64_t consumed_samples) const;
  // The batch that it ends with.
  std::int64_t last() const { return pieces_.back().batch; }
  std::int64_t smallest() const;
  std::int64_t largest() const;
  // Neighbours have different batches.
  const std::vector<Piece>& pieces() const { return pieces_; }
  // Every batch as the largest multiple of `divisor` that is not above it.
  BatchSchedule rounded_down(std::int64_t divisor) const;

 private:
  std::vector<Piece> pieces_;
};

}  // namespace phalanx
