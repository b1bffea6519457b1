#pragma once
// The secret of a run: its processes prove to each other that they know it.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace phalanx {

// Secret bytes: they lie on pages of their own, which core files leave out, and are wiped before
// their memory is freed. They can be moved, not copied.
class SecretBytes {
 public:
  SecretBytes() = default;
  explicit SecretBytes(std::size_t size);  // zeros
  SecretBytes(SecretBytes&& other) noexcept;
  SecretBytes& operator=(SecretBytes&& other) noexcept;
  SecretBytes(const SecretBytes&) = delete;
  SecretBytes& operator=(const SecretBytes&) = delete;
  ~SecretBytes();

  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::size_t size() const { return size_; }
  // Wipes the bytes from `size` on.
  void shrink(std::size_t size);

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t allocated_ = 0;
};

// Copies share the bytes, which are wiped with the last copy.
class Secret {
 public:
  Secret() = default;
  Secret(SecretBytes bytes, std::string source);

  std::span<const std::byte> bytes() const;
  // No secret: ranks on one host, where the kernel tells a peer's user, or --rdzv-insecure.
  bool empty() const { return bytes().empty(); }
  // For people: "--rdzv-secret-file /run/key".
  const std::string& source() const { return source_; }

 private:
  std::shared_ptr<const SecretBytes> bytes_{};
  std::string source_{};
};

// PermissionError (77) unless the file belongs to this user and nobody else may read it;
// InputMissingError (66) if it is missing; DataError (65) if it holds fewer than 16 bytes or more
// than 4 KiB.
Secret read_secret_file(const std::filesystem::path& path, const std::string& flag);

// 32 random bytes.
Secret make_secret();
// A descriptor of a file in memory that holds the secret; child processes inherit it.
int share_secret(const Secret& secret);
// The secret behind such a descriptor. PermissionError if it is not one.
Secret inherited_secret(int descriptor);

}  // namespace phalanx
