#include <algorithm>
#include <cctype>

#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

std::string lower(std::string_view word) {
  std::string result(word);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Edits (insert, delete, replace, exchange of two neighbours) that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1), above(b.size() + 1), next(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] =
          std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool is_exchange = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_exchange) next[j] = std::min(next[j], above[j - 2] + 1);
    }
    above.swap(row);
    row.swap(next);
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view typed,
                                   const std::vector<std::string>& candidates) {
  const std::string word = lower(typed);
  // One or two typing errors count, not a common ending: --num-workers is not --num-layers.
  const std::size_t letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
  std::optional<std::string> best;
  std::size_t best_distance = std::clamp<std::size_t>(letters / 4, 1, 3) + 1;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(word, lower(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (best || letters < 3) return best;
  // Or the word is the beginning of exactly one name.
  const auto begins = [&](const std::string& name) { return lower(name).starts_with(word); };
  const auto found = std::ranges::find_if(candidates, begins);
  if (found == candidates.end() || std::ranges::count_if(candidates, begins) > 1) return best;
  return *found;
}

}  // namespace phalanx
