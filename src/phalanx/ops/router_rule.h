#pragma once
// How a router turns the logits of all experts into the experts of a token. Kernels of devices
// include this, so it knows nothing else.

#include <cstdint>

namespace phalanx::ops {

// Kernels keep the scores of a token on chip.
inline constexpr std::int64_t kMostExperts = 512;
inline constexpr std::int64_t kMostChosenExperts = 16;  // of a token

// Keeps a sum of sigmoids from being 0.
inline constexpr double kScoreEpsilon = 1e-20;

// Of SinkhornChoice.
inline constexpr int kSinkhornRounds = 1000;
inline constexpr double kSinkhornTolerance = 1e-4;
inline constexpr double kSinkhornEpsilon = 1e-8;

enum class RouterScore : std::uint8_t {
  kSoftmax,       // over the chosen experts
  kSoftmaxFirst,  // over all experts, before the choice; not normalised again
  kSigmoid,
  kSqrtSoftplus,  // sqrt(log(1 + exp(z)))
};
constexpr bool is_softmax(RouterScore score) { return score <= RouterScore::kSoftmaxFirst; }

// How the experts of a token are found.
enum class RouterChoice : std::uint8_t {
  kBest,   // those with the best scores
  kTurns,  // k experts after those of the row before, in a circle: equal work for all
  kGiven,  // `experts` has them already, in any order
};

struct RouterRule {
  RouterScore score = RouterScore::kSoftmax;
  // Experts lie in `groups` groups of equal size, of which the best `group_topk` take part. The
  // score of a group is the sum of its best `group_best` scores.
  std::int64_t groups = 1;
  std::int64_t group_topk = 1;
  std::int64_t group_best = 1;
  double scaling = 1.0;  // of the probabilities, after everything else
};

// What stands for the expert where a pair of a token and an expert is dropped: a negative number.
// chosen_expert() gives the expert of both.
constexpr std::int32_t dropped_expert(std::int32_t expert) { return -1 - expert; }
constexpr std::int32_t chosen_expert(std::int32_t expert) {
  return expert < 0 ? -1 - expert : expert;
}

}  // namespace phalanx::ops
