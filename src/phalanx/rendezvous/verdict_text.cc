#include "phalanx/rendezvous/verdict_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace phalanx::rendezvous {
namespace {

constexpr std::size_t kMaxListed = 16;  // ranks and ranges of ranks in a line
constexpr std::size_t kMaxReported = 64;

using TimePoint = ObservedRank::Clock::time_point;

std::string since_text(TimePoint since, TimePoint now) {
  return fmt::format("{:.1f} s", std::max(0.0, seconds(now - since)));
}

// The ranks that wait for a culprit in one call: of several calls, the one with the most waiters.
struct Waiters {
  CommPlace place;
  std::vector<int> ranks;
  double seconds = 0.0;  // the longest
};

Waiters waiters_of(const States& states, int culprit, TimePoint now) {
  using Call = std::tuple<std::string_view, std::string_view, std::int64_t>;
  const auto call_of = [](const Heartbeat::Wait& wait) {
    return Call{wait.place.group, wait.place.operation, wait.place.number};
  };
  const auto is_listed = [&](const Heartbeat::Wait& wait) {
    return std::ranges::find(wait.missing, culprit) != wait.missing.end();
  };
  std::map<Call, Waiters> calls;
  for (const ObservedRank& state : states) {
    if (state.is_here() && state.heartbeat.wait && is_listed(*state.heartbeat.wait))
      calls[call_of(*state.heartbeat.wait)].place = state.heartbeat.wait->place;
  }
  for (const ObservedRank& state : states) {
    if (!state.is_here() || !state.heartbeat.wait) continue;
    const Heartbeat::Wait& wait = *state.heartbeat.wait;
    const auto call = calls.find(call_of(wait));
    // Who does not list all waits for the culprit as the others in this call do.
    if (call == calls.end() || (wait.lists_all() && !is_listed(wait))) continue;
    Waiters& waiters = call->second;
    waiters.ranks.push_back(state.place.rank);
    waiters.seconds = std::max(waiters.seconds, wait.seconds + seconds(now - state.last_heard));
  }
  Waiters most;
  for (auto& [call, waiters] : calls)
    if (waiters.ranks.size() > most.ranks.size()) most = std::move(waiters);
  return most;
}

std::string wait_text(const Heartbeat::Wait& wait) {
  std::string text = call_text(wait.place);
  if (wait.missing.empty()) return text;
  text += ", for " + ranks_text(wait.missing);
  if (!wait.lists_all()) {
    text += fmt::format(" and others, {} in all", wait.missing_count);
  }
  return text;
}

// "; last known, 0.3 s before: ...".
std::string last_known_text(const ObservedRank& state, TimePoint now) {
  return fmt::format("; last known, {} before: {}", since_text(state.last_heard, now),
                     position_text(state));
}

// "host n07 (ranks 4-7)".
std::string host_and_ranks_text(const States& states, const std::vector<int>& ranks) {
  return fmt::format("{} ({})", host_text(states[ranks.front()]), ranks_text(ranks));
}

std::string others_text(const std::vector<int>& culprits) {
  if (culprits.size() < 2) return "";
  const std::vector<int> others(culprits.begin() + 1, culprits.end());
  return fmt::format("; so {} {}", others.size() == 1 ? "does" : "do", ranks_text(others));
}

std::string report_line(const ObservedRank& state, TimePoint now) {
  const std::string who = rank_text(state);
  switch (state.life) {
    case ObservedRank::Life::kAbsent:
      return who + ": has not joined";
    case ObservedRank::Life::kLost:
      return fmt::format("{}: is gone; it was {}", who, position_text(state));
    case ObservedRank::Life::kLeft:
      return who + ": is done";
    case ObservedRank::Life::kHere:
      break;
  }
  std::string line = fmt::format("{}: {}", who, position_text(state));
  if (state.heartbeat.wait)
    line += fmt::format(" since {:.1f} s",
                        state.heartbeat.wait->seconds + seconds(now - state.last_heard));
  return line + fmt::format("; moved {} ago, heard {} ago", since_text(state.last_moved, now),
                            since_text(state.last_heard, now));
}

}  // namespace

std::string one_line(std::string_view text, std::size_t most) {
  std::string line(text.substr(0, most));
  std::ranges::replace_if(
      line, [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }, ' ');
  if (line.size() < text.size()) line += "...";
  return line;
}

std::string ranks_text(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  std::size_t listed = 0;
  for (std::size_t i = 0; i < ranks.size(); ++listed) {
    if (listed == kMaxListed) return fmt::format("{} and {} more", text, ranks.size() - i);
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i < 3) end = i + 1;
    text += listed == 0 ? " " : ", ";
    text +=
        end - i == 1 ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[end - 1]);
    i = end;
  }
  return text;
}

std::string host_text(const ObservedRank& state) {
  if (state.place.host_name.empty()) return fmt::format("host {}", state.place.host);
  return "host " + one_line(state.place.host_name);
}

std::string rank_text(const ObservedRank& state) {
  if (state.pid == 0) return fmt::format("rank {} ({})", state.place.rank, host_text(state));
  return fmt::format("rank {} ({}, pid {})", state.place.rank, host_text(state), state.pid);
}

std::string call_text(const CommPlace& place) {
  std::string text = place.operation.empty() ? "a message" : one_line(place.operation);
  if (!place.group.empty() && place.number >= 0) {
    text += fmt::format(", call {} of group {}", place.number, one_line(place.group));
  } else if (!place.group.empty()) {
    text += fmt::format(", of group {}", one_line(place.group));
  } else if (place.number >= 0) {
    text += fmt::format(", message {}", place.number);
  }
  return text;
}

// "saving the checkpoint of iteration 100, writing /runs/a/m.tmp (3.2 GB, 2 files so far)".
std::string activity_text(const ObservedRank& state) {
  const Heartbeat& last = state.heartbeat;
  std::string text = one_line(last.busy);
  if (!last.access.empty()) text += (text.empty() ? "" : ", ") + one_line(last.access);
  if (!last.busy_progress.empty())
    text += fmt::format(" ({} so far)", one_line(last.busy_progress));
  return text;
}

std::string position_text(const ObservedRank& state) {
  std::string text = state.heartbeat.iteration < 0
                         ? "no iteration over yet"
                         : fmt::format("after iteration {}", state.heartbeat.iteration);
  if (state.is_busy() || !state.heartbeat.access.empty()) return text + ", " + activity_text(state);
  if (state.heartbeat.wait) return text + ", waiting in " + wait_text(*state.heartbeat.wait);
  return text + ", in its own work";
}

std::string lost_reason(const States& states, const std::vector<int>& culprits, bool whole_host,
                        const std::string& how, TimePoint now) {
  const ObservedRank& first = states[culprits.front()];
  const std::string why = one_line(how);
  if (whole_host)
    return fmt::format("{} is gone: of {}, {}{}", host_and_ranks_text(states, culprits),
                       rank_text(first), why, last_known_text(first, now));
  return fmt::format("{} is gone: {}{}", rank_text(first), why, last_known_text(first, now));
}

std::string silence_reason(const States& states, const std::vector<int>& culprits, bool whole_host,
                           TimePoint now) {
  const ObservedRank& first = states[culprits.front()];
  const std::string time = since_text(first.last_heard, now);
  const std::string last_known = last_known_text(first, now);
  if (whole_host)
    return fmt::format(
        "{} hangs: nothing has been heard of its ranks for {}, though their connections are "
        "open; {}{}",
        host_and_ranks_text(states, culprits), time, rank_text(first), last_known.substr(1));
  return fmt::format(
      "{} hangs: nothing has been heard of it for {}, though its connection is open{}{}",
      rank_text(first), time, last_known, others_text(culprits));
}

std::string stillness_reason(const States& states, const std::vector<int>& culprits,
                             TimePoint now) {
  const ObservedRank& first = states[culprits.front()];
  const Waiters waiters = waiters_of(states, first.place.rank, now);
  std::string text = rank_text(first) + " hangs: ";
  if (first.heartbeat.wait)
    text += fmt::format("it waits in {}{}", wait_text(*first.heartbeat.wait),
                        waiters.ranks.empty() ? "" : ", while ");
  const std::string activity = first.heartbeat.wait ? "" : activity_text(first);
  if (!activity.empty()) {
    text += fmt::format("{}, and nothing has moved in it for {}", activity,
                        since_text(first.last_moved, now));
    if (!waiters.ranks.empty()) {
      text += fmt::format("; {} {} for it in {}", ranks_text(waiters.ranks),
                          waiters.ranks.size() == 1 ? "waits" : "wait", call_text(waiters.place));
    }
  } else if (waiters.ranks.empty()) {
    text +=
        fmt::format("{}, {} {}", first.heartbeat.wait ? "" : "nothing has moved in its own work",
                    "for", since_text(first.last_moved, now));
  } else {
    const bool is_group = !waiters.place.group.empty();
    const bool one = waiters.ranks.size() == 1;
    text += is_group
                ? fmt::format("it has not joined {}, in which {} {}, for {:.1f} s",
                              call_text(waiters.place), ranks_text(waiters.ranks),
                              one ? "waits" : "wait", waiters.seconds)
                : fmt::format("{} {} for it in {}, for {:.1f} s", ranks_text(waiters.ranks),
                              one ? "waits" : "wait", call_text(waiters.place), waiters.seconds);
  }
  return text + others_text(culprits);
}

std::string report_text(const States& states, const std::vector<int>& culprits, TimePoint now) {
  std::vector<bool> is_culprit(states.size(), false);
  for (const int rank : culprits) is_culprit[static_cast<std::size_t>(rank)] = true;
  std::vector<int> order = culprits;
  for (const ObservedRank& state : states)
    if (!is_culprit[static_cast<std::size_t>(state.place.rank)]) order.push_back(state.place.rank);
  std::string text;
  for (std::size_t i = 0; i < std::min(order.size(), kMaxReported); ++i)
    text += report_line(states[order[i]], now) + "\n";
  if (order.size() > kMaxReported)
    text += fmt::format("and {} ranks more\n", order.size() - kMaxReported);
  return text;
}

}  // namespace phalanx::rendezvous
