#pragma once
// Few combinations of many axes, chosen so that every legal pair of values of any two axes occurs
// in one of them.

#include <functional>
#include <vector>

namespace phalanx {

// One value, by number, for every axis.
using Combination = std::vector<int>;
using IsLegal = std::function<bool(const Combination&)>;

// Greedy and deterministic. `sizes` are the numbers of values. A pair that none of many random
// combinations around it makes legal counts as illegal.
std::vector<Combination> pairwise_cover(const std::vector<int>& sizes, const IsLegal& is_legal);

// Calls visit for every legal combination, the last axis fastest.
void for_product(const std::vector<int>& sizes, const IsLegal& is_legal,
                 const std::function<void(const Combination&)>& visit);

}  // namespace phalanx
