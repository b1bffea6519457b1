#include "phalanx/rendezvous/crypto.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <vector>

namespace phalanx::rendezvous {
namespace {

std::string digits_of(const Digest& digest) {
  std::string digits;
  for (const std::byte byte : digest) digits += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return digits;
}

std::vector<std::byte> bytes_of(int first, int count) {
  std::vector<std::byte> bytes;
  for (int value = first; value < first + count; ++value) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

// RFC 4231, test case 2, and the digest of nothing under no key.
TEST(Crypto, HmacIsTheStandards) {
  const std::string key = "Jefe";
  EXPECT_EQ(digits_of(hmac_sha256(std::as_bytes(std::span(key)), "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(digits_of(hmac_sha256({}, "")),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

// RFC 5869, appendix A.1: the first 32 of its 42 bytes.
TEST(Crypto, DerivedKeysAreTheStandards) {
  const std::vector<std::byte> secret(22, std::byte{0x0b});
  const std::vector<std::byte> salt = bytes_of(0, 13);
  const std::vector<std::byte> label = bytes_of(0xf0, 10);
  EXPECT_EQ(digits_of(derive_key(secret, text_of(salt), text_of(label)).bytes()),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
}

TEST(Crypto, SecretsAreComparedWhole) {
  EXPECT_TRUE(equal_secretly("abc", "abc"));
  EXPECT_FALSE(equal_secretly("abc", "abd"));
  EXPECT_FALSE(equal_secretly("abc", "ab"));
  EXPECT_TRUE(equal_secretly("", ""));
}

TEST(Crypto, RandomBytesDiffer) {
  Digest one{};
  Digest other{};
  fill_randomly(one);
  fill_randomly(other);
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace phalanx::rendezvous
