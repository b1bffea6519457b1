#include "phalanx/ops/cuda/check/expected.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "phalanx/base/error.h"

namespace phalanx::cuda {
namespace {

// FNV-1a.
std::uint64_t digest_of(const std::vector<std::byte>& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
  }
  return hash;
}

}  // namespace

Digest digest_parts(const std::vector<std::byte>& bytes) {
  Digest digest{bytes.size(), {}};
  const std::size_t step = (bytes.size() + 15) / 16;
  for (std::size_t i = 0; i < bytes.size(); i += step) {
    digest.parts.push_back(
        digest_of({bytes.begin() + static_cast<std::ptrdiff_t>(i),
                   bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), i + step))}));
  }
  return digest;
}

Expected read_expected(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputMissingError("{}: cannot be read", path);
  std::ostringstream text;
  text << file.rdbuf();
  return parse_expected(text.str(), path);
}

// Lines "BYTES DIGEST,DIGEST,... NAME"; '#' begins a comment.
Expected parse_expected(const std::string& text, const std::string& path) {
  std::istringstream lines(text);
  Expected expected;
  std::string line;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Digest digest;
    std::string parts;
    std::string name;
    words >> digest.bytes >> parts >> std::ws;
    std::getline(words, name);
    std::istringstream list(parts);
    for (std::string part; std::getline(list, part, ',');) {
      digest.parts.push_back(std::stoull(part, nullptr, 16));
    }
    if (name.empty()) throw DataError("{}: a line without a name: {}", path, line);
    expected[name] = digest;
  }
  return expected;
}

std::vector<ExactCheck> all_exact_checks() {
  std::vector<ExactCheck> checks = member_checks();
  for (auto& check : driver_checks()) checks.push_back(std::move(check));
  for (auto& check : kernel_checks()) checks.push_back(std::move(check));
  for (auto& check : embedding_checks()) checks.push_back(std::move(check));
  for (auto& check : position_checks()) checks.push_back(std::move(check));
  return checks;
}

std::vector<ApproximateCheck> all_approximate_checks() {
  std::vector<ApproximateCheck> checks = approximate_checks();
  for (auto& check : loss_checks()) checks.push_back(std::move(check));
  checks.push_back(rotary_table_check());
  for (auto& check : attention_checks()) checks.push_back(std::move(check));
  for (auto& check : grouped_checks()) checks.push_back(std::move(check));
  return checks;
}

void write_expected(const std::string& path, Workbench& bench) {
  std::ofstream file(path);
  if (!file) throw OutputError("{}: cannot be written", path);
  file << "# What a device must give, as record_digests has written it: bytes, "
          "digests of 16 parts, name.\n";
  for (const ExactCheck& check : all_exact_checks()) {
    bench.clear();
    const Digest digest = digest_parts(check.run(bench));
    std::string parts;
    for (const std::uint64_t part : digest.parts) {
      parts += fmt::format("{}{:016x}", parts.empty() ? "" : ",", part);
    }
    file << fmt::format("{} {} {}\n", digest.bytes, parts, check.name);
  }
}

}  // namespace phalanx::cuda
