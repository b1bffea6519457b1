#include "phalanx/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>

#include "phalanx/base/error.h"
#include "phalanx/base/progress.h"
#include "phalanx/base/random_access_file.h"

namespace phalanx {

namespace {
constexpr std::size_t kPiece = std::size_t{16} << 20;
}  // namespace

struct Xxh3::State {
  State() : value(XXH3_createState()) {
    if (value == nullptr) throw SystemError("no memory for the state of a digest");
    XXH3_64bits_reset(value);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(value); }
  XXH3_state_t* value;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {}
Xxh3::Xxh3(Xxh3&&) noexcept = default;
Xxh3& Xxh3::operator=(Xxh3&&) noexcept = default;
Xxh3::~Xxh3() = default;

void Xxh3::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(state_->value, bytes.data(), bytes.size());
}

std::uint64_t Xxh3::digest() const { return XXH3_64bits_digest(state_->value); }

// Works in pieces and notes progress after each, because a mapped file may lie on a slow disk.
std::uint64_t xxh3(std::span<const std::byte> bytes) {
  if (bytes.size() <= kPiece) return XXH3_64bits(bytes.data(), bytes.size());
  Xxh3 digest;
  for (std::size_t done = 0; done < bytes.size(); done += kPiece) {
    digest.update(bytes.subspan(done, std::min(kPiece, bytes.size() - done)));
    note_progress();
  }
  return digest.digest();
}

std::uint64_t xxh3(std::string_view text) {
  return xxh3(std::as_bytes(std::span(text.data(), text.size())));
}

std::string digest_to_text(std::uint64_t digest) { return fmt::format("{:016x}", digest); }

std::optional<std::uint64_t> digest_from_text(std::string_view text) {
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return std::nullopt;
  }
  std::uint64_t digest = 0;
  std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  return digest;
}

FileDigest digest_file(const std::filesystem::path& path) {
  const RandomAccessFile file(path);
  Xxh3 digest;
  file.visit(0, file.size(), [&](std::span<const std::byte> bytes) { digest.update(bytes); });
  return {.bytes = file.size(), .xxh3 = digest.digest()};
}

}  // namespace phalanx
