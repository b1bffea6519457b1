#include "phalanx/launch/option_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"

namespace phalanx::launch {
namespace {

constexpr int kMostRanksPerNode = 4096;
constexpr std::size_t kLongestRunId = 128;
constexpr std::int64_t kLongestTimeout = 7 * 24 * 3600;  // s

std::vector<std::string_view> between_commas(std::string_view text) {
  std::vector<std::string_view> items;
  for (bool more = !text.empty(); more;) {
    const std::size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    if (comma != 0 && !text.empty()) items.push_back(text.substr(0, comma));
    text.remove_prefix(more ? comma + 1 : text.size());
  }
  return items;
}

}  // namespace

int number_of(std::string_view text, std::string_view flag, int most) {
  int value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size() || value < 0 || value > most) {
    throw UsageError("{} {}: must be a number from 0 to {}", flag, text, most);
  }
  return value;
}

int ranks_of(const std::string& text) {
  if (text == "auto" || text == "cpu") return usable_cores().count;
  if (text == "gpu" || text == "cuda" || text == "xpu") {
    throw ConfigError("--nproc-per-node {}: ranks compute on processors here: auto or a number",
                      text);
  }
  const int ranks = number_of(text, "--nproc-per-node", kMostRanksPerNode);
  if (ranks == 0) throw UsageError("--nproc-per-node 0: must be at least 1");
  return ranks;
}

int nodes_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  const int least = number_of(std::string_view(text).substr(0, colon), "--nnodes", kMostNodes);
  if (least == 0) throw UsageError("--nnodes {}: must be at least 1", text);
  if (colon == std::string::npos) return least;
  const int most = number_of(std::string_view(text).substr(colon + 1), "--nnodes", kMostNodes);
  if (most != least) {
    throw ConfigError(
        "--nnodes {}: the layout of a run is that of one world size, nodes neither come nor go "
        "while it runs: give one number, and start it again on other nodes (a checkpoint resumes "
        "under any layout)",
        text);
  }
  return least;
}

GivenEndpoint endpoint_of(const std::string& text) {
  std::string host = text;
  std::string port;
  if (text.starts_with("[")) {
    const std::size_t end = text.find(']');
    if (end == std::string::npos) throw UsageError("--rdzv-endpoint {}: ] is missing", text);
    host = text.substr(1, end - 1);
    const std::string rest = text.substr(end + 1);
    if (!rest.empty() && rest[0] != ':') {
      throw UsageError("--rdzv-endpoint {}: must be HOST[:PORT]", text);
    }
    port = rest.empty() ? "" : rest.substr(1);
  } else if (std::ranges::count(text, ':') == 1) {
    host = text.substr(0, text.find(':'));
    port = text.substr(text.find(':') + 1);
  }
  if (host.empty()) throw UsageError("--rdzv-endpoint {}: the host is missing", text);
  GivenEndpoint endpoint{host, std::nullopt};
  if (!port.empty()) endpoint.port = number_of(port, "--rdzv-endpoint", kMostPort);
  return endpoint;
}

RendezvousSettings rendezvous_settings_of(const std::string& text) {
  RendezvousSettings settings;
  for (const std::string_view item : between_commas(text)) {
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const bool is_join = key == "join_timeout" || key == "timeout";
    if (equals == std::string_view::npos || (!is_join && key != "save_timeout")) {
      throw ConfigError(
          "--rdzv-conf {}: the settings are join_timeout=SECONDS and save_timeout=SECONDS", item);
    }
    const int seconds =
        number_of(item.substr(equals + 1), "--rdzv-conf", static_cast<int>(kLongestTimeout));
    if (is_join) {
      settings.join_timeout = std::chrono::seconds(std::max(seconds, 1));
    } else {
      settings.save_timeout = std::chrono::seconds(seconds);
    }
  }
  return settings;
}

std::vector<int> signals_of(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, int>, 6> kSignals = {{{"SIGTERM", SIGTERM},
                                                                         {"SIGINT", SIGINT},
                                                                         {"SIGHUP", SIGHUP},
                                                                         {"SIGQUIT", SIGQUIT},
                                                                         {"SIGUSR1", SIGUSR1},
                                                                         {"SIGUSR2", SIGUSR2}}};
  std::vector<int> signals;
  for (const std::string_view name : between_commas(text)) {
    const auto known = std::ranges::find_if(kSignals, [&](const auto& one) {
      return one.first == name || one.first.substr(3) == name;
    });
    if (known == kSignals.end()) {
      throw UsageError(
          "--signals-to-handle {}: {} is none of SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, "
          "SIGUSR2",
          text, name);
    }
    signals.push_back(known->second);
  }
  return signals;
}

std::set<int> console_ranks_of(const std::string& text) {
  std::set<int> ranks;
  for (const std::string_view item : between_commas(text)) {
    ranks.insert(number_of(item, "--local-ranks-filter", kMostRanksPerNode - 1));
  }
  return ranks;
}

void check_run_id(const std::string& id) {
  const bool is_plain = std::ranges::all_of(
      id, [](unsigned char c) { return c > ' ' && c < 0x7f && c != '/' && c != '\\'; });
  if (!is_plain || id == "." || id == ".." || id.size() > kLongestRunId) {
    throw UsageError(
        "--rdzv-id {}: names a directory of logs: at most {} letters, digits and signs but "
        "slashes and blanks",
        id.substr(0, kLongestRunId), kLongestRunId);
  }
}

}  // namespace phalanx::launch
