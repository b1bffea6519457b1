#pragma once
// The sizes of a run that `finetune chat` chooses itself, by the data.

#include <cstdint>
#include <span>

namespace phalanx {

// The tokens of a sample: the smallest multiple of 64, above 512 of 128, that holds 99 % of the
// conversations with these lengths; at most `positions`, the model's.
std::int64_t chosen_sequence(std::span<const std::int64_t> lengths, std::int64_t positions);

// How many of the lengths fit.
std::int64_t fitting(std::span<const std::int64_t> lengths, std::int64_t sequence);

// The samples of a global batch: 16, or 8, 4, 2, 1 where an epoch of `samples` would else have
// fewer than 8 iterations; rounded up to a multiple of `samples_together`, which the ranks train at
// a time.
std::int64_t chosen_batch(std::int64_t samples, std::int64_t samples_together);

// Iterations from one evaluation to the next: an epoch, or an equal part of it of at most 500.
std::int64_t chosen_interval(std::int64_t iterations_of_epoch);

}  // namespace phalanx
