#pragma once
// The secret of a run, which its ranks prove to each other that they know.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace phalanx {

// Bytes that nobody else shall see: they lie on pages of their own, which core files leave out, and
// are wiped before their memory is given back. They can be moved, not copied.
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
  // Forgets those behind.
  void shrink(std::size_t size);

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t allocated_ = 0;
};

// Its copies share the bytes, which are wiped with the last of them.
class Secret {
 public:
  Secret() = default;
  Secret(SecretBytes bytes, std::string source);

  std::span<const std::byte> bytes() const;
  // There is none: one host, where the kernel says whose a peer is, or --rdzv-insecure.
  bool empty() const { return bytes().empty(); }
  // For people: "--rdzv-secret-file /run/key".
  const std::string& source() const { return source_; }

 private:
  std::shared_ptr<const SecretBytes> bytes_{};
  std::string source_{};
};

// PermissionError (77) unless the file is this user's and nobody else may read it;
// InputMissingError (66); DataError (65) where it holds fewer than 16 bytes or more than 4 KiB.
Secret read_secret_file(const std::filesystem::path& path, const std::string& flag);

// 32 random bytes.
Secret make_secret();
// A descriptor of a file in memory that holds it, which children inherit; and what one reads there.
int share_secret(const Secret& secret);
Secret inherited_secret(int descriptor);

}  // namespace phalanx
