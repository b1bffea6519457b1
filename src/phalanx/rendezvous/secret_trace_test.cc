// When a secret is no longer needed, it is nowhere in the memory of the process.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "phalanx/rendezvous/rendezvous_test_support.h"

namespace phalanx::rendezvous {
namespace {

constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kPiece = std::size_t{1} << 20;
// Larger mappings are only reserved, by a sanitizer.
constexpr std::uint64_t kLargest = std::uint64_t{1} << 32;

// The secret with all bits inverted, so that the test's own copy is not found.
using Turned = std::array<unsigned char, kSecretBytes>;

Turned turned(const Secret& secret) {
  Turned bytes{};
  for (std::size_t i = 0; i < kSecretBytes; ++i) {
    bytes[i] = static_cast<unsigned char>(~std::to_integer<unsigned>(secret.bytes()[i]));
  }
  return bytes;
}

bool stands_at(const unsigned char* at, const Turned& secret) {
  for (std::size_t i = 0; i < kSecretBytes; ++i) {
    if (static_cast<unsigned char>(~at[i]) != secret[i]) return false;
  }
  return true;
}

// How often the secret is in this process's writable memory.
int traces_of(const Turned& secret) {
  // Not in the memory that is searched.
  const std::size_t size = kPiece + kSecretBytes;
  auto* const piece = static_cast<unsigned char*>(
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const int memory = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  int traces = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    char dash = 0;
    std::string rights;
    std::istringstream(line) >> std::hex >> first >> dash >> end >> rights;
    if (!rights.starts_with("rw") || end - first > kLargest) continue;
    const auto own = reinterpret_cast<std::uint64_t>(piece);
    for (std::uint64_t at = first; at < end;) {
      if (at >= own && at < own + size) {
        at = own + size;
        continue;
      }
      const std::uint64_t stop = std::min({end, at + size, at < own ? own : end});
      const ssize_t count = ::pread(memory, piece, stop - at, static_cast<off_t>(at));
      for (ssize_t i = 0; i + static_cast<ssize_t>(kSecretBytes) <= count; ++i) {
        if (stands_at(piece + i, secret)) ++traces;
      }
      at = std::min(at + kPiece, stop);
    }
  }
  ::close(memory);
  ::munmap(piece, size);
  return traces;
}

TEST(SecretTrace, IsFoundWhereItIs) {
  const Secret secret = make_secret();
  EXPECT_EQ(traces_of(turned(secret)), 1);
  const Secret shared = secret;  // NOLINT(performance-unnecessary-copy-initialization): the point
  EXPECT_EQ(traces_of(turned(shared)), 1);
}

TEST(SecretTrace, NothingIsLeftOfARun) {
  Turned bytes{};
  {
    CoordinatorOptions options = coordinator_options(tcp_endpoint("127.0.0.1"), 2);
    bytes = turned(options.secret);
    const int descriptor = share_secret(options.secret);
    options.secret = inherited_secret(descriptor);
    ::close(descriptor);
    const Coordinator coordinator(options);
    std::vector<std::unique_ptr<Member>> members = join_all(coordinator, options);
    leave_all(members);
  }
  EXPECT_EQ(traces_of(bytes), 0);
}

}  // namespace
}  // namespace phalanx::rendezvous
