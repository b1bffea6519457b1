#pragma once
// What a device must give: digests of what the emulated machine gives (expected.txt).

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "phalanx/ops/cuda/check/checks.h"

namespace phalanx::cuda {

// Of a result's bytes, in sixteen parts, so that a difference has a place.
struct Digest {
  std::size_t bytes = 0;
  std::vector<std::uint64_t> parts;

  bool operator==(const Digest&) const = default;
};
Digest digest_parts(const std::vector<std::byte>& bytes);

// By the names of checks.
using Expected = std::map<std::string, Digest>;
// Of expected.txt's text; `path` is for errors. DataError.
Expected parse_expected(const std::string& text, const std::string& path);
// InputMissingError, DataError.
Expected read_expected(const std::string& path);
// The text of expected.txt that the library was built with.
std::string built_in_digests();
// Runs every exact check. OutputError.
void write_expected(const std::string& path, Workbench& bench);

// Of members, driver and kernels.
std::vector<ExactCheck> all_exact_checks();
// Of functions, activations, products, losses and attention.
std::vector<ApproximateCheck> all_approximate_checks();

}  // namespace phalanx::cuda
