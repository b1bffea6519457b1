#include "phalanx/settings/batch_schedule.h"

#include <algorithm>
#include <cmath>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

using Piece = BatchSchedule::Piece;

// The first number of samples at which the ramp has made `steps` steps, computed with doubles as
// Megatron does.
std::int64_t begin_of_step(std::int64_t steps, double samples_per_step) {
  const auto has_made = [&](std::int64_t consumed) {
    return static_cast<double>(consumed) / samples_per_step >= static_cast<double>(steps);
  };
  auto begin = static_cast<std::int64_t>(std::ceil(static_cast<double>(steps) * samples_per_step));
  while (!has_made(begin)) ++begin;
  while (begin > 0 && has_made(begin - 1)) --begin;
  return begin;
}

std::vector<Piece> pieces_of(const BatchSchedule::Rampup& rampup, std::int64_t global_batch) {
  const std::int64_t steps = (global_batch - rampup.start) / rampup.increment;
  PHALANX_CHECK(
      steps >= 0 && rampup.start + steps * rampup.increment == global_batch && rampup.samples > 0,
      "a ramp from {} by {} does not end at {}", rampup.start, rampup.increment, global_batch);
  std::vector<Piece> pieces = {{.from = 0, .batch = rampup.start}};
  const double samples_per_step =
      static_cast<double>(rampup.samples) / static_cast<double>(std::max<std::int64_t>(1, steps));
  for (std::int64_t step = 1; step <= steps; ++step) {
    const std::int64_t begin = begin_of_step(step, samples_per_step);
    if (begin > rampup.samples) break;
    const std::int64_t batch = rampup.start + step * rampup.increment;
    // If steps are shorter than a sample, several begin together and the last one counts.
    if (pieces.back().from == begin) pieces.pop_back();
    pieces.push_back({.from = begin, .batch = batch});
  }
  if (pieces.back().batch != global_batch) {
    pieces.push_back({.from = rampup.samples + 1, .batch = global_batch});
  }
  return pieces;
}

}  // namespace

BatchSchedule::BatchSchedule(const std::vector<Piece>& pieces) {
  PHALANX_CHECK(!pieces.empty() && pieces.front().from == 0,
                "a schedule of batches does not say what the first is");
  for (const Piece& piece : pieces) {
    PHALANX_CHECK(pieces_.empty() || piece.from > pieces_.back().from,
                  "batches are not in the order of their samples");
    if (pieces_.empty() || piece.batch != pieces_.back().batch) pieces_.push_back(piece);
  }
}

BatchSchedule::BatchSchedule(const Rampup& rampup, std::int64_t global_batch)
    : BatchSchedule(pieces_of(rampup, global_batch)) {}

std::int64_t BatchSchedule::at(std::int64_t consumed_samples) const {
  const auto next = std::ranges::upper_bound(pieces_, consumed_samples, {}, &Piece::from);
  return std::prev(next)->batch;
}

std::optional<std::int64_t> BatchSchedule::next_change(std::int64_t consumed_samples) const {
  const auto next = std::ranges::upper_bound(pieces_, consumed_samples, {}, &Piece::from);
  return next == pieces_.end() ? std::nullopt : std::optional(next->from);
}

std::optional<std::int64_t> BatchSchedule::iterations_alike(std::int64_t consumed_samples) const {
  const auto end = next_change(consumed_samples);
  if (!end) return std::nullopt;
  return ceil_div(*end - consumed_samples, at(consumed_samples));
}

std::int64_t BatchSchedule::samples_of(std::int64_t iterations,
                                       std::int64_t consumed_samples) const {
  std::int64_t samples = 0;
  while (iterations > 0) {
    const std::int64_t consumed = consumed_samples + samples;
    const std::int64_t alike =
        std::min(iterations, iterations_alike(consumed).value_or(iterations));
    samples += alike * at(consumed);
    iterations -= alike;
  }
  return samples;
}

std::int64_t BatchSchedule::iterations_for(std::int64_t samples) const {
  std::int64_t iterations = 0;
  std::int64_t consumed = 0;
  while (consumed < samples) {
    const std::int64_t batch = at(consumed);
    const std::int64_t missing = ceil_div(samples - consumed, batch);
    const std::int64_t alike = std::min(missing, iterations_alike(consumed).value_or(missing));
    iterations += alike;
    consumed += alike * batch;
  }
  return iterations;
}

std::int64_t BatchSchedule::smallest() const {
  return std::ranges::min_element(pieces_, {}, &Piece::batch)->batch;
}

std::int64_t BatchSchedule::largest() const {
  return std::ranges::max_element(pieces_, {}, &Piece::batch)->batch;
}

BatchSchedule BatchSchedule::rounded_down(std::int64_t divisor) const {
  std::vector<Piece> rounded = pieces_;
  for (Piece& piece : rounded) piece.batch -= piece.batch % divisor;
  return BatchSchedule(rounded);
}

}  // namespace phalanx
