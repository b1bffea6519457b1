#pragma once
// XXH3 (64 bits), the digest of checkpoints, caches and data. It is fast enough to be always on. It
// detects damage, not forgery.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace phalanx {

// The digest of bytes that arrive in pieces.
class Xxh3 {
 public:
  Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;
  ~Xxh3();

  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t xxh3(std::span<const std::byte> bytes);
std::uint64_t xxh3(std::string_view text);

// Sixteen hexadecimal digits, as `xxhsum -H3` prints them.
std::string digest_to_text(std::uint64_t digest);
std::optional<std::uint64_t> digest_from_text(std::string_view text);

struct FileDigest {
  std::int64_t bytes = 0;
  std::uint64_t xxh3 = 0;
  friend bool operator==(const FileDigest&, const FileDigest&) = default;
};
FileDigest digest_file(const std::filesystem::path& path);

}  // namespace phalanx
