#pragma once
// The cryptographic functions of the rendezvous: HMAC-SHA256, keys derived from it, random bytes,
// comparison in constant time, and wiping of secret bytes.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace phalanx::rendezvous {

inline constexpr std::size_t kDigestBytes = 32;
using Digest = std::array<std::byte, kDigestBytes>;

// Zeros the bytes in a way that the compiler cannot remove.
void wipe(std::span<std::byte> bytes);

// The key of a connection's frames. Each copy is wiped when it is destroyed.
class Key {
 public:
  Key() = default;
  explicit Key(const Digest& bytes) : bytes_(bytes) {}
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;
  ~Key() { wipe(bytes_); }
  const Digest& bytes() const { return bytes_; }
  friend bool operator==(const Key&, const Key&) = default;

 private:
  Digest bytes_{};
};

// The key may be empty.
Digest hmac_sha256(std::span<const std::byte> key, std::string_view text);
// HKDF-SHA256 (RFC 5869), its first 32 bytes.
Key derive_key(std::span<const std::byte> secret, std::string_view salt, std::string_view label);
// As 64 hexadecimal digits.
std::string sha256_digits(std::string_view text);

// From the system. SystemError where it has none.
void fill_randomly(std::span<std::byte> bytes);

// In constant time for equal lengths.
bool equal_secretly(std::string_view left, std::string_view right);

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace phalanx::rendezvous
