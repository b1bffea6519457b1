#include "phalanx/metrics/timing_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace phalanx {
namespace {

// In milliseconds.
std::string all_ranks(const TimerRow& row) {
  std::string text = fmt::format("\n  {}:", row.name);
  for (std::size_t rank = 0; rank < row.seconds.size(); ++rank) {
    if (row.seconds[rank] <= 0) continue;
    fmt::format_to(std::back_inserter(text), "\n     rank {:2d}: {:.2f}", rank,
                   1e3 * row.seconds[rank]);
  }
  return text;
}

std::string extremes(const TimerRow& row, bool max_only) {
  std::vector<double> ran;
  std::ranges::copy_if(row.seconds, std::back_inserter(ran), [](double time) { return time > 0; });
  const auto [least, most] = std::ranges::minmax(ran);
  const std::string name = fmt::format("\n    {:.<48}: ", row.name + ' ');
  return max_only ? name + fmt::format("{:.2f}", 1e3 * most)
                  : name + fmt::format("({:.2f}, {:.2f})", 1e3 * least, 1e3 * most);
}

}  // namespace

std::string format_times(std::string_view option, std::span<const TimerRow> rows) {
  std::string text;
  for (const TimerRow& row : rows) {
    if (std::ranges::none_of(row.seconds, [](double time) { return time > 0; })) continue;
    text += option == "all" ? all_ranks(row) : extremes(row, option == "max");
  }
  if (text.empty()) return text;
  if (option == "all") return "times across ranks (ms):" + text;
  return (option == "max" ? "max time across ranks (ms):" : "(min, max) time across ranks (ms):") +
         text;
}

}  // namespace phalanx
