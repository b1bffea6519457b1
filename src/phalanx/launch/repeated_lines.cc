#include "phalanx/launch/repeated_lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace phalanx::launch {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(200);
// More lines than these are dropped from the console; they are in the logs.
constexpr std::size_t kMostWaiting = 256;
constexpr std::size_t kMostShown = 2000;

}  // namespace

void RepeatedLines::add(int rank, std::string line, Clock::time_point now) {
  if (const auto shown = shown_.find(line); shown != shown_.end()) {
    ++shown->second;
    return;
  }
  const auto same = std::ranges::find(waiting_, line, &Waiting::line);
  if (same != waiting_.end()) {
    ++same->count;
    if (std::ranges::find(same->ranks, rank) == same->ranks.end()) same->ranks.push_back(rank);
    return;
  }
  if (waiting_.size() >= kMostWaiting || shown_.size() >= kMostShown) {
    ++dropped_;
    return;
  }
  waiting_.push_back({.line = std::move(line), .ranks = {rank}, .count = 1, .since = now});
}

std::vector<std::string> RepeatedLines::take(Clock::time_point now, bool all) {
  std::vector<std::string> lines;
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (!all && waiting.since + kPatience > now) return false;
    lines.push_back(fmt::format("[{} {}] {}{}", waiting.ranks.size() == 1 ? "rank" : "ranks",
                                ranks_text(waiting.ranks), waiting.line,
                                waiting.count == 1 ? "" : fmt::format(" (x{})", waiting.count)));
    shown_.emplace(waiting.line, 0);
    return true;
  });
  if (!all) return lines;
  std::size_t again = 0;
  for (auto& [line, count] : shown_) again += std::exchange(count, 0);
  if (again > 0) lines.push_back(fmt::format("[ranks] the same again: {} lines", again));
  if (const std::size_t dropped = std::exchange(dropped_, 0); dropped > 0) {
    lines.push_back(
        fmt::format("[ranks] {} more lines are not shown (--log-dir keeps all)", dropped));
  }
  return lines;
}

RepeatedLines::Clock::time_point RepeatedLines::next() const {
  return waiting_.empty() ? Clock::time_point::max() : waiting_.front().since + kPatience;
}

std::string ranks_text(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += text.empty() ? "" : ", ";
    text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace phalanx::launch
