#pragma once
// What the values of `phalanx launch`'s flags mean. Each function throws UsageError where a value
// makes no sense, and ConfigError where torchrun knows it but it is not possible here.

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx::launch {

inline constexpr int kMostNodes = 65536;
inline constexpr int kMostPort = 65535;

int number_of(std::string_view text, std::string_view flag, int most);

// --nproc-per-node: a number, or auto.
int ranks_of(const std::string& text);
// --nnodes: N, or MIN:MAX with equal numbers.
int nodes_of(const std::string& text);

// --rdzv-endpoint: "HOST", "HOST:PORT", "[::1]:PORT", "::1".
struct GivenEndpoint {
  std::string host;
  std::optional<int> port;
};
GivenEndpoint endpoint_of(const std::string& text);

// --rdzv-conf: what it sets; it has no settings of other rendezvous services.
struct RendezvousSettings {
  std::optional<std::chrono::seconds> join_timeout;
  std::optional<std::chrono::seconds> save_timeout;
};
RendezvousSettings rendezvous_settings_of(const std::string& text);
// --signals-to-handle.
std::vector<int> signals_of(const std::string& text);
// --local-ranks-filter.
std::set<int> console_ranks_of(const std::string& text);
// --rdzv-id, which becomes the name of a directory and the value of a variable.
void check_run_id(const std::string& id);

}  // namespace phalanx::launch
