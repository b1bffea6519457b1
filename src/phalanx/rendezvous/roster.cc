#include "phalanx/rendezvous/roster.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

constexpr std::size_t kMostNamed = 8;

}  // namespace

Roster::Roster(std::string noun, int size) : noun_(std::move(noun)) {
  PHALANX_CHECK(size >= 0, "{} members", size);
  members_.resize(static_cast<std::size_t>(size));
}

std::optional<Refusal> Roster::admit(int number, const JoinRequest& join) {
  const auto refuse = [](std::string text) {
    return Refusal{ErrorCode::kConfiguration, false, std::move(text)};
  };
  if (join.world_size != size()) {
    return refuse(
        fmt::format("{} {} (host {}) counts {} {}s, the coordinator {}: the same number on all "
                    "hosts (WORLD_SIZE, "
                    "--nnodes, --nproc-per-node)",
                    noun_, number, join.host_name, join.world_size, noun_, size()));
  }
  if (number < 0 || number >= size()) {
    return refuse(fmt::format("{} {} (host {}) of {}: they are numbered from 0 to {}", noun_,
                              number, join.host_name, size(), size() - 1));
  }
  std::optional<JoinRequest>& place = members_[static_cast<std::size_t>(number)];
  if (place) {
    return refuse(
        fmt::format("{} {} joins twice: from host {} (pid {}) and from host {} (pid {}): each "
                    "needs a number of "
                    "its own (RANK, --node-rank)",
                    noun_, number, place->host_name, place->pid, join.host_name, join.pid));
  }
  place = join;
  ++joined_;
  const std::int64_t first = std::int64_t{number} - join.local_rank;
  nodes_.try_emplace(first, Node{first + join.local_size, join.host_name});
  return std::nullopt;
}

bool Roster::has(int number) const {
  return number >= 0 && number < size() && members_[static_cast<std::size_t>(number)].has_value();
}

const JoinRequest& Roster::member(int number) const {
  PHALANX_CHECK(has(number), "{} {} has not joined", noun_, number);
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access)
  return *members_[static_cast<std::size_t>(number)];
}

std::string Roster::name_of(int number) const {
  if (!has(number)) return fmt::format("{} {}", noun_, number);
  const JoinRequest& join = member(number);
  return fmt::format("{} {} (host {}, pid {})", noun_, number, join.host_name, join.pid);
}

std::vector<int> Roster::missing() const {
  std::vector<int> numbers;
  visited_ += members_.size();
  for (int number = 0; number < size(); ++number) {
    if (!has(number)) numbers.push_back(number);
  }
  return numbers;
}

std::string Roster::host_of_missing(int number) const {
  const auto after = nodes_.upper_bound(number);
  if (after == nodes_.begin()) return {};
  const Node& node = std::prev(after)->second;
  return number < node.end ? node.host_name : std::string();
}

std::string Roster::count_text() const { return fmt::format("{}/{} joined", joined_, size()); }

std::string Roster::roll_call() const {
  std::string count = count_text();
  if (complete()) return count;
  // Successive numbers of one host: "8-15".
  struct Run {
    int first, last;
    std::string host;
  };
  std::vector<Run> runs;
  for (int number = 0; number < size(); ++number) {
    ++visited_;
    if (has(number)) continue;
    std::string host = host_of_missing(number);
    if (!runs.empty() && runs.back().last == number - 1 && runs.back().host == host) {
      runs.back().last = number;
    } else {
      // One more than are named shows that there are more.
      if (runs.size() > kMostNamed) break;
      runs.push_back({number, number, std::move(host)});
    }
  }
  std::string names;
  for (std::size_t at = 0; at < std::min(runs.size(), kMostNamed); ++at) {
    const Run& run = runs[at];
    names += at == 0 ? " " : ", ";
    names += run.first == run.last ? fmt::format("{}", run.first)
                                   : fmt::format("{}-{}", run.first, run.last);
    if (!run.host.empty()) names += fmt::format(" (host {})", run.host);
  }
  if (runs.size() > kMostNamed) names += ", ...";
  return fmt::format("{}, missing {}{}{}", count, noun_, size() - joined_ == 1 ? "" : "s", names);
}

std::vector<RankPlace> Roster::places() const {
  PHALANX_CHECK(complete(), "{}", roll_call());
  std::map<std::pair<int, std::string>, int> hosts;
  std::vector<int> sizes;
  visited_ += members_.size();
  std::vector<RankPlace> places;
  for (int number = 0; number < size(); ++number) {
    const JoinRequest& join = member(number);
    const int next = static_cast<int>(hosts.size());
    const int host = hosts.try_emplace({join.node, join.machine}, next).first->second;
    if (host == next) sizes.push_back(0);
    places.push_back(
        {number, size(), host, sizes[static_cast<std::size_t>(host)]++, 1, join.host_name});
  }
  for (RankPlace& place : places) place.local_size = sizes[static_cast<std::size_t>(place.host)];
  return places;
}

}  // namespace phalanx::rendezvous
