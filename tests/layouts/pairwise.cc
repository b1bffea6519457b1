#include "pairwise.h"

#include <cstdint>
#include <set>
#include <tuple>

namespace phalanx {
namespace {

// Axis and value, twice; the smaller axis first.
using Pair = std::tuple<std::size_t, int, std::size_t, int>;

constexpr int kTries = 4000;     // until a pair counts as illegal
constexpr int kCandidates = 30;  // of which the best is taken

// Knuth's MMIX generator: the same everywhere, unlike the distributions of <random>.
class Numbers {
 public:
  int below(int limit) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int>((state_ >> 33) % static_cast<std::uint64_t>(limit));
  }

 private:
  std::uint64_t state_ = 1;
};

std::set<Pair> all_pairs(const std::vector<int>& sizes) {
  std::set<Pair> pairs;
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    for (std::size_t b = a + 1; b < sizes.size(); ++b) {
      for (int i = 0; i < sizes[a]; ++i) {
        for (int j = 0; j < sizes[b]; ++j) pairs.insert({a, i, b, j});
      }
    }
  }
  return pairs;
}

std::vector<Pair> pairs_of(const Combination& combination) {
  std::vector<Pair> pairs;
  for (std::size_t a = 0; a < combination.size(); ++a) {
    for (std::size_t b = a + 1; b < combination.size(); ++b) {
      pairs.emplace_back(a, combination[a], b, combination[b]);
    }
  }
  return pairs;
}

// Of some legal combinations with this pair the one with most uncovered pairs; empty where none was
// found.
Combination best_with(const Pair& pair, const std::vector<int>& sizes, const IsLegal& is_legal,
                      const std::set<Pair>& uncovered, Numbers& numbers) {
  const auto [a, i, b, j] = pair;
  Combination best;
  std::size_t most = 0;
  int found = 0;
  for (int attempt = 0; attempt < kTries && found < kCandidates; ++attempt) {
    Combination candidate;
    for (const int size : sizes) candidate.push_back(numbers.below(size));
    candidate[a] = i;
    candidate[b] = j;
    if (!is_legal(candidate)) continue;
    ++found;
    std::size_t count = 0;
    for (const Pair& p : pairs_of(candidate)) count += uncovered.count(p);
    if (count > most) {
      most = count;
      best = candidate;
    }
  }
  return best;
}

}  // namespace

std::vector<Combination> pairwise_cover(const std::vector<int>& sizes, const IsLegal& is_legal) {
  std::vector<Combination> cover;
  std::set<Pair> uncovered = all_pairs(sizes);
  Numbers numbers;
  while (!uncovered.empty()) {
    const Pair pair = *uncovered.begin();
    const Combination best = best_with(pair, sizes, is_legal, uncovered, numbers);
    if (best.empty()) {
      uncovered.erase(pair);
      continue;
    }
    for (const Pair& p : pairs_of(best)) uncovered.erase(p);
    cover.push_back(best);
  }
  return cover;
}

void for_product(const std::vector<int>& sizes, const IsLegal& is_legal,
                 const std::function<void(const Combination&)>& visit) {
  Combination combination(sizes.size(), 0);
  while (true) {
    if (is_legal(combination)) visit(combination);
    std::size_t axis = sizes.size();
    while (axis > 0 && ++combination[axis - 1] == sizes[axis - 1]) combination[--axis] = 0;
    if (axis == 0) return;
  }
}

}  // namespace phalanx
