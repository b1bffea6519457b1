#include "phalanx/rendezvous/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

Digest hmac_sha256(std::span<const std::byte> key, std::string_view text) {
  // An empty key is one of zeros, but not a null pointer.
  static constexpr std::byte kNoKey{};
  Digest digest{};
  unsigned int size = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key.empty() ? &kNoKey : key.data(), static_cast<int>(key.size()),
           bytes_of(text), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &size);
  if (made == nullptr || size != digest.size()) throw SystemError("libcrypto has no HMAC-SHA256");
  return digest;
}

Key derive_key(std::span<const std::byte> secret, std::string_view salt, std::string_view label) {
  const Key extracted(hmac_sha256(std::as_bytes(std::span(salt)), text_of(secret)));
  return Key(hmac_sha256(extracted.bytes(), std::string(label) + '\x01'));
}

void wipe(std::span<std::byte> bytes) {
  if (!bytes.empty()) OPENSSL_cleanse(bytes.data(), bytes.size());
}

std::string sha256_digits(std::string_view text) {
  Digest digest{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                 EVP_sha256(), nullptr) != 1) {
    throw SystemError("libcrypto has no SHA-256");
  }
  std::string digits;
  for (const std::byte byte : digest) digits += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return digits;
}

void fill_randomly(std::span<std::byte> bytes) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) !=
      1) {
    throw SystemError("the system gives no random bytes");
  }
}

bool equal_secretly(std::string_view left, std::string_view right) {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace phalanx::rendezvous
