#include "phalanx/base/cpu_affinity.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>

namespace phalanx {
namespace {

// Sizes to try, because no call returns the size of the kernel's mask.
constexpr std::size_t kFewestCores = 1024, kMostCores = std::size_t{1} << 20U;

using Mask = std::vector<cpu_set_t>;
constexpr std::size_t kCoresOfSet = 8 * sizeof(cpu_set_t);
std::size_t bytes_of(const Mask& mask) { return mask.size() * sizeof(cpu_set_t); }

// The cores of the calling thread.
std::vector<int> allowed_cores() {
  for (std::size_t cores = kFewestCores; cores <= kMostCores; cores *= 2) {
    Mask mask(cores / kCoresOfSet);
    if (sched_getaffinity(0, bytes_of(mask), mask.data()) != 0) continue;
    std::vector<int> allowed;
    for (std::size_t core = 0; core < cores; ++core) {
      if (CPU_ISSET_S(core, bytes_of(mask), mask.data())) allowed.push_back(static_cast<int>(core));
    }
    return allowed;
  }
  return {};
}

// Parses the kernel's "0-3,8"; stops at anything that is no number.
std::vector<int> cores_in(std::string_view list) {
  std::vector<int> cores;
  const char* at = list.data();
  const char* const end = at + list.size();
  const auto number = [&](int& value) {
    const auto [next, fault] = std::from_chars(at, end, value);
    at = next;
    return fault == std::errc{};
  };
  for (int first = 0; number(first);) {
    int last = first;
    if (at != end && *at == '-') {
      ++at;
      if (!number(last)) break;
    }
    for (int core = first; core <= last && core < static_cast<int>(kMostCores); ++core) {
      cores.push_back(core);
    }
    if (at == end || *at != ',') break;
    ++at;
  }
  return cores;
}

std::string first_line(const std::filesystem::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

// Maps cores to nodes. Cores that no node lists belong to node 0.
std::map<int, int> nodes_of_cores(const std::filesystem::path& root) {
  std::map<int, int> nodes;
  const std::filesystem::path directory = root / "sys/devices/system/node";
  for (const int node : cores_in(first_line(directory / "online"))) {
    for (const int core :
         cores_in(first_line(directory / fmt::format("node{}", node) / "cpulist"))) {
      nodes[core] = node;
    }
  }
  return nodes;
}

// The first hyper-thread of the core that runs this one.
int first_sibling(int core, const std::filesystem::path& root) {
  const auto siblings = cores_in(first_line(
      root / fmt::format("sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", core)));
  return siblings.empty() ? core : siblings.front();
}

}  // namespace

std::vector<int> cores_of_thread(const std::filesystem::path& root) {
  const auto nodes = nodes_of_cores(root);
  const auto place = [&](int core) {
    const auto node = nodes.find(core);
    return std::tuple(node == nodes.end() ? 0 : node->second, first_sibling(core, root), core);
  };
  std::vector<decltype(place(0))> places;
  std::ranges::transform(allowed_cores(), std::back_inserter(places), place);
  std::ranges::sort(places);
  std::vector<int> cores;
  for (const auto& [node, sibling, core] : places) cores.push_back(core);
  return cores;
}

bool bind_thread(std::span<const int> cores) {
  if (cores.empty()) return false;
  const auto highest = static_cast<std::size_t>(*std::ranges::max_element(cores));
  Mask mask(std::max(kFewestCores, highest + 1) / kCoresOfSet + 1);
  for (const int core : cores) {
    CPU_SET_S(static_cast<std::size_t>(core), bytes_of(mask), mask.data());
  }
  return sched_setaffinity(0, bytes_of(mask), mask.data()) == 0;
}

std::vector<int> cores_of_rank(std::span<const int> usable, int ranks, int rank, int threads) {
  const auto cores = static_cast<int>(usable.size());
  if (ranks < 2 || cores / ranks != threads) return {};
  const auto begin = [&](int r) {
    return static_cast<std::ptrdiff_t>(std::int64_t{cores} * r / ranks);
  };
  return {usable.begin() + begin(rank), usable.begin() + begin(rank + 1)};
}

std::string cores_text(std::span<const int> cores) {
  std::vector<int> sorted(cores.begin(), cores.end());
  std::ranges::sort(sorted);
  std::string text;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? std::to_string(sorted[i]) : fmt::format("{}-{}", sorted[i], sorted[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace phalanx
