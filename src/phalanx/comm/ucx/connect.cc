#include "phalanx/comm/ucx/connect.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/comm/ucx/shared_memory.h"
#include "phalanx/comm/ucx/ucx_library.h"

namespace phalanx::ucx {
namespace {

// If processes may read each other's memory, large messages are copied once instead of twice.
constexpr const char* kSharedMemory = "posix,cma";
constexpr const char* kSharedMemoryAlone = "posix";
// Two namespaces of one machine are two hosts to us, and one to UCX.
constexpr const char* kNetwork = "^posix,sysv,cma,xpmem,knem,self";

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<std::uint8_t>(c));
  return text;
}

std::optional<std::string> from_hex(std::string_view text) {
  std::string bytes;
  if (text.size() % 2 != 0) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    std::uint8_t value = 0;
    const auto result = std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    if (result.ec != std::errc{} || result.ptr != text.data() + i + 2) return std::nullopt;
    bytes.push_back(static_cast<char>(value));
  }
  return bytes;
}

// A value that peers try to read from this process's memory.
struct Sample {
  std::array<std::uint64_t, 2> value{};
  Sample() {
    std::random_device random;
    for (auto& word : value) word = (std::uint64_t{random()} << 32) | random();
  }
};

// The text that a rank sends the others: "PID SAMPLE'S-ADDRESS SAMPLE SHARED-MEMORY NETWORK".
struct Invitation {
  std::int64_t pid = 0;
  std::uint64_t sample_address = 0;
  std::string sample{};
  std::string shared_memory{};  // addresses of wires; empty: none
  std::string network{};

  std::string to_text() const {
    return fmt::format("{} {} {} {} {}", pid, sample_address, to_hex(sample),
                       to_hex(shared_memory) + ".", to_hex(network) + ".");
  }
  static Invitation parse(int rank, const std::string& text) {
    std::vector<std::string_view> words;
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      words.push_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    const auto malformed = [rank]() -> SystemError {
      return SystemError("rank {} says nothing that can be understood of where it listens", rank);
    };
    const auto number = [&](std::string_view word, auto& value) {
      const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
      if (result.ec != std::errc{} || result.ptr != word.data() + word.size()) throw malformed();
    };
    const auto bytes = [&](std::string_view word) {
      auto decoded = from_hex(word);
      if (!decoded) throw malformed();
      return *decoded;
    };
    if (words.size() != 5 || !words[3].ends_with('.') || !words[4].ends_with('.')) {
      throw malformed();
    }
    Invitation invitation;
    number(words[0], invitation.pid);
    number(words[1], invitation.sample_address);
    invitation.sample = bytes(words[2]);
    invitation.shared_memory = bytes(words[3].substr(0, words[3].size() - 1));
    invitation.network = bytes(words[4].substr(0, words[4].size() - 1));
    return invitation;
  }
};

// The kernel may refuse it to processes of one user: ptrace_scope, seccomp, user namespaces.
bool can_read(const Invitation& peer) {
  std::string copy(peer.sample.size(), '\0');
  const iovec local{copy.data(), copy.size()};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): of another process
  const iovec remote{reinterpret_cast<void*>(peer.sample_address), copy.size()};
  const auto got = process_vm_readv(static_cast<pid_t>(peer.pid), &local, 1, &remote, 1, 0);
  return got == static_cast<ssize_t>(copy.size()) && copy == peer.sample;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::unique_ptr<Wire> make_network_wire(const UcxOptions& options) {
  const std::string transports = variable("UCX_TLS");
  const std::string devices =
      options.network_device.empty() ? variable("UCX_NET_DEVICES") : options.network_device;
  return make_wire(transports.empty() ? kNetwork : transports, devices);
}

// UCX reports a full folder as missing resources.
std::unique_ptr<Wire> make_local_wire(const char* transports, int ranks) {
  try {
    return make_wire(transports, "");
  } catch (const SystemError& error) {
    const std::string fault = shared_memory_fault(shared_memory_folder(), ranks);
    if (fault.empty()) throw;
    throw SystemError("{} ({})", fault, error.what());
  }
}

}  // namespace

Wires open_wires(int rank, const std::vector<RankPlace>& places, const UcxOptions& options,
                 const GatherTexts& gather) {
  if (places.size() > 1) open_ucx();
  const auto is_local = [&](std::size_t peer) {
    return places[peer].host == places[static_cast<std::size_t>(rank)].host;
  };
  std::unique_ptr<Wire> shared_memory, network;
  bool remotes = false;
  int ranks_here = 0;
  for (std::size_t peer = 0; peer < places.size(); ++peer) {
    ranks_here += is_local(peer) ? 1 : 0;
    remotes = remotes || !is_local(peer);
  }
  const bool locals = ranks_here > 1;
  if (locals) shared_memory = make_local_wire(kSharedMemory, ranks_here);
  if (remotes) network = make_network_wire(options);

  const Sample sample;
  Invitation mine{
      .pid = getpid(),
      .sample_address = reinterpret_cast<std::uintptr_t>(&sample.value),
      .sample = std::string(reinterpret_cast<const char*>(&sample.value), sizeof sample.value)};
  const auto invite = [&] {
    if (shared_memory) mine.shared_memory = shared_memory->address();
    if (network) mine.network = network->address();
    const std::vector<std::string> texts = gather(mine.to_text());
    PHALANX_CHECK(texts.size() == places.size(), "{} texts of {} ranks", texts.size(),
                  places.size());
    std::vector<Invitation> invitations;
    for (std::size_t peer = 0; peer < texts.size(); ++peer) {
      invitations.push_back(Invitation::parse(static_cast<int>(peer), texts[peer]));
    }
    return invitations;
  };
  std::vector<Invitation> invitations = invite();
  std::string unread;
  for (std::size_t peer = 0; peer < places.size() && unread.empty(); ++peer) {
    if (static_cast<int>(peer) != rank && is_local(peer) && !can_read(invitations[peer])) {
      unread = std::to_string(peer);
    }
  }
  const std::vector<std::string> refusals = gather(unread);
  const auto refused =
      std::ranges::find_if(refusals, [](const auto& text) { return !text.empty(); });
  if (refused != refusals.end()) {
    if (rank == 0) {
      log_info(
          "rank {} may not read the memory of rank {} (ptrace_scope, seccomp or a namespace): "
          "messages within hosts are copied twice",
          refused - refusals.begin(), *refused);
    }
    if (locals) shared_memory = make_local_wire(kSharedMemoryAlone, ranks_here);
    invitations = invite();
  }

  Wires wires;
  for (std::size_t peer = 0; peer < places.size(); ++peer) {
    Wires::Peer& end = wires.peers.emplace_back();
    if (static_cast<int>(peer) == rank) continue;
    end.wire = (is_local(peer) ? shared_memory : network).get();
    end.address = is_local(peer) ? invitations[peer].shared_memory : invitations[peer].network;
    if (end.address.empty()) {
      throw SystemError("rank {} (host {}) does not listen where rank {} (host {}) expects it",
                        peer, places[peer].host_name, rank,
                        places[static_cast<std::size_t>(rank)].host_name);
    }
  }
  if (shared_memory) wires.wires.push_back(std::move(shared_memory));
  if (network) wires.wires.push_back(std::move(network));
  return wires;
}

}  // namespace phalanx::ucx
