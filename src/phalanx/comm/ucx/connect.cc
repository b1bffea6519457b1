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

#include "phalanx/base/descriptor_limit.h"
#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/shared_memory.h"
#include "phalanx/comm/ucx/shared_memory.h"
#include "phalanx/comm/ucx/ucx_library.h"

namespace phalanx::ucx {
namespace {

// If processes may read each other's memory, large messages are copied once instead of twice.
constexpr const char* kSharedMemory = "posix,cma";
constexpr const char* kSharedMemoryAlone = "posix";
// Two namespaces of one machine are two hosts to us, and one to UCX.
constexpr const char* kNetwork = "^posix,sysv,cma,xpmem,knem,self";

// A connection to a rank of another host takes one descriptor; the wires take some.
constexpr int kOwnDescriptors = 24;

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

SystemError malformed(int rank) {
  return SystemError("rank {} says nothing that can be understood of where it listens", rank);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words;
}

// "SHARED-MEMORY. NETWORK.": addresses of wires, empty where there is none.
struct Addresses {
  std::string shared_memory{};
  std::string network{};

  std::string to_text() const {
    return fmt::format("{}. {}.", to_hex(shared_memory), to_hex(network));
  }
  static Addresses parse(int rank, std::string_view text) {
    const std::vector<std::string_view> words = words_of(text);
    const auto bytes = [&](std::size_t index) {
      if (words.size() != 2 || !words[index].ends_with('.')) throw malformed(rank);
      auto decoded = from_hex(words[index].substr(0, words[index].size() - 1));
      if (!decoded) throw malformed(rank);
      return *decoded;
    };
    return {.shared_memory = bytes(0), .network = bytes(1)};
  }
};

// "PID ADDRESS VALUE" of a rank's sample.
std::string text_of(const Sample& sample) {
  const std::string_view value(reinterpret_cast<const char*>(&sample.value), sizeof sample.value);
  return fmt::format("{} {} {}", getpid(), reinterpret_cast<std::uintptr_t>(&sample.value),
                     to_hex(value));
}

// Whether this process reads the sample of `rank` where the text says. The kernel may refuse it to
// processes of one user: ptrace_scope, seccomp, user namespaces.
bool can_read(int rank, std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  const auto number = [&](std::string_view word, auto& value) {
    const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
    if (result.ec != std::errc{} || result.ptr != word.data() + word.size()) throw malformed(rank);
  };
  if (words.size() != 3) throw malformed(rank);
  pid_t pid = 0;
  std::uint64_t address = 0;
  number(words[0], pid);
  number(words[1], address);
  const auto expected = from_hex(words[2]);
  if (!expected || expected->size() != sizeof(Sample::value)) throw malformed(rank);
  std::string copy(expected->size(), '\0');
  const iovec local{copy.data(), copy.size()};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): of another process
  const iovec remote{reinterpret_cast<void*>(address), copy.size()};
  const auto got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
  return got == static_cast<ssize_t>(copy.size()) && copy == *expected;
}

// Whether all ranks of this host may read each other's memory. Each tries the next one's, in a
// ring; the first gathers what they say and tells all.
bool may_read_memory(int rank, const std::vector<int>& ranks_here, Mailbox& mailbox) {
  const auto place = std::ranges::find(ranks_here, rank) - ranks_here.begin();
  const int next = ranks_here[static_cast<std::size_t>(place + 1) % ranks_here.size()];
  const Sample sample;
  mailbox.post(fmt::format("sample/{}", rank), text_of(sample));
  const bool reads = can_read(next, mailbox.read(fmt::format("sample/{}", next)));
  const int first = ranks_here.front();
  const std::string verdict_name = fmt::format("reads/all-with-{}", first);
  if (rank != first) {
    mailbox.post(fmt::format("reads/{}", rank), reads ? "" : std::to_string(next));
    // The sample lives until all have read.
    return mailbox.read(verdict_name) == "yes";
  }
  std::string refused =
      reads ? "" : fmt::format("rank {} may not read the memory of rank {}", rank, next);
  for (const int other : ranks_here) {
    if (other == rank) continue;
    const std::string unread = mailbox.read(fmt::format("reads/{}", other));
    if (!unread.empty() && refused.empty()) {
      refused = fmt::format("rank {} may not read the memory of rank {}", other, unread);
    }
  }
  mailbox.post(verdict_name, refused.empty() ? "yes" : "no");
  if (refused.empty()) return true;
  log_info("{} (ptrace_scope, seccomp or a namespace): messages within this host are copied twice",
           refused);
  return false;
}

std::string name_of_address(int rank) { return fmt::format("address/{}", rank); }

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

std::int64_t most_peers(std::span<const int> summing) {
  constexpr std::int64_t kBesides = 64;
  std::int64_t peers = kBesides;
  for (const int members : summing) peers += members - 1;
  return peers;
}

Wires open_wires(int rank, const std::vector<RankPlace>& places, const UcxOptions& options,
                 Mailbox& mailbox) {
  if (places.size() > 1) open_ucx();
  const auto host_of = [&](int peer) { return places[static_cast<std::size_t>(peer)].host; };
  std::vector<int> ranks_here;
  for (int peer = 0; peer < std::ssize(places); ++peer) {
    if (host_of(peer) == host_of(rank)) ranks_here.push_back(peer);
  }
  const int here = static_cast<int>(ranks_here.size());
  const int elsewhere = static_cast<int>(places.size()) - here;
  if (elsewhere > 0) {
    const std::int64_t peers = options.summing.empty()
                                   ? elsewhere
                                   : std::min<std::int64_t>(elsewhere, most_peers(options.summing));
    raise_descriptor_limit(
        static_cast<std::size_t>(kOwnDescriptors + peers),
        fmt::format("rank {}, which connects to up to {} ranks of other hosts,", rank, peers));
  }
  std::unique_ptr<Wire> shared_memory, network;
  if (here > 1) {
    const bool reads = may_read_memory(rank, ranks_here, mailbox);
    shared_memory = make_local_wire(reads ? kSharedMemory : kSharedMemoryAlone, here);
  }
  if (elsewhere > 0) network = make_network_wire(options);

  Addresses mine;
  if (shared_memory) mine.shared_memory = shared_memory->address();
  if (network) mine.network = network->address();
  if (places.size() > 1) mailbox.post(name_of_address(rank), mine.to_text());

  Wires wires;
  for (int peer = 0; peer < std::ssize(places); ++peer) {
    Wire* const wire = host_of(peer) == host_of(rank) ? shared_memory.get() : network.get();
    wires.peers.push_back(peer == rank ? nullptr : wire);
  }
  wires.find_address = [&mailbox, over_network = network.get(), peers = wires.peers](int peer) {
    const Addresses theirs = Addresses::parse(peer, mailbox.read(name_of_address(peer)));
    const bool is_far = peers[static_cast<std::size_t>(peer)] == over_network;
    std::string address = is_far ? theirs.network : theirs.shared_memory;
    if (address.empty()) {
      throw SystemError("rank {} does not listen {}", peer,
                        is_far ? "on the network" : "in this host's shared memory");
    }
    return address;
  };
  if (places.size() > 1) wires.mailbox = &mailbox;
  if (shared_memory) wires.wires.push_back(std::move(shared_memory));
  if (network) wires.wires.push_back(std::move(network));
  return wires;
}

}  // namespace phalanx::ucx
