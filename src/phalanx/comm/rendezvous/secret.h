#pragma once
// The secret of a run, which its ranks prove to each other that they know.

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace phalanx {

struct Secret {
  std::vector<std::byte> bytes;  // empty: none (one host, where the kernel says whose a peer is)
  std::string source;            // for people: "--rdzv-secret-file /run/key"
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
