#include "phalanx/rendezvous/slurm_lists.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

constexpr std::size_t kMaxHostName = 253;  // of DNS
constexpr std::int64_t kMaxTasks = 1 << 20;

bool is_host_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Removes a number from the front of `text`.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0 || value > kMaxTasks) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

// The first number of "[01-03,07]" with its leading zeros. Removes the brackets from `list`.
std::optional<std::string_view> take_first_of_range(std::string_view& list) {
  const std::size_t end = list.find(']');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view range = list.substr(1, end - 1);
  list.remove_prefix(end + 1);
  const auto digits = std::ranges::find_if_not(range, is_digit) - range.begin();
  const auto known = [](char c) { return is_digit(c) || c == '-' || c == ','; };
  if (digits == 0 || !std::ranges::all_of(range, known)) return std::nullopt;
  return range.substr(0, static_cast<std::size_t>(digits));
}

std::optional<std::string> first_host(std::string_view list) {
  std::string host;
  while (!list.empty() && list[0] != ',') {
    if (list[0] == '[') {
      const auto number = take_first_of_range(list);
      if (!number) return std::nullopt;
      host += *number;
    } else if (is_host_character(list[0])) {
      host += list[0];
      list.remove_prefix(1);
    } else {
      return std::nullopt;
    }
    if (host.size() > kMaxHostName) return std::nullopt;
  }
  if (host.empty()) return std::nullopt;
  return host;
}

std::optional<SlurmTasks> count_tasks(std::string_view list, int host) {
  std::int64_t hosts = 0;
  std::int64_t tasks = 0;
  std::int64_t of_host = 0;
  do {
    const auto count = take_number(list);
    if (!count) return std::nullopt;
    std::int64_t times = 1;
    if (take(list, "(x")) {
      const auto repeated = take_number(list);
      if (!repeated || *repeated == 0 || !take(list, ")")) return std::nullopt;
      times = *repeated;
    }
    if (host >= hosts && host < hosts + times) of_host = *count;
    hosts += times;
    tasks += *count * times;  // at most 2^40 before it is refused
    if (hosts > kMaxTasks || tasks > kMaxTasks) return std::nullopt;
  } while (take(list, ","));
  if (!list.empty()) return std::nullopt;
  return SlurmTasks{static_cast<int>(hosts), static_cast<int>(tasks), static_cast<int>(of_host)};
}

}  // namespace

std::string first_slurm_host(std::string_view variable, std::string_view list) {
  if (auto host = first_host(list)) return *host;
  throw UsageError("{}={}: not a list of hosts such as n[01-03],m5; set MASTER_ADDR", variable,
                   list.substr(0, kMaxHostName));
}

SlurmTasks slurm_tasks(std::string_view variable, std::string_view list, int host) {
  const auto tasks = count_tasks(list, host);
  if (!tasks)
    throw UsageError("{}={}: not a list of tasks per host such as 2(x3),1", variable,
                     list.substr(0, kMaxHostName));
  if (host >= tasks->hosts)
    throw UsageError("{}={} lists {} hosts, and SLURM_NODEID={} is none of them", variable, list,
                     tasks->hosts, host);
  return *tasks;
}

}  // namespace phalanx::rendezvous
