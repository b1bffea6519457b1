#include "phalanx/data/index_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/data/build_lock.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// The header: magic, u32 version, u32 length of the description, u64 bytes of the block, u64 digest
// of the block, u64 digest of the header (without this field) with the description and the zeros
// that follow it up to a multiple of 64; then the block. Little-endian.
constexpr std::string_view kMagic = "PHXINDEX";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kBlockDigestAt = 24;
constexpr std::size_t kDigestAt = 32;
constexpr std::size_t kHeaderBytes = 40;
constexpr std::int64_t kBlockAlignment = 64;
constexpr std::size_t kLongestDescription = (1 << 16) - 1;

constexpr std::size_t kWrittenBetweenPolls = std::size_t{64} << 20;
constexpr std::chrono::milliseconds kPause{50};
constexpr std::chrono::seconds kQuietWait{3};
constexpr std::chrono::seconds kBetweenLines{60};

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::size_t block_begin(std::size_t description_bytes) {
  return static_cast<std::size_t>(
      round_up(static_cast<std::int64_t>(kHeaderBytes + description_bytes), kBlockAlignment));
}

std::uint64_t header_digest(std::span<const std::byte> header) {
  Xxh3 digest;
  digest.update(header.first(kDigestAt));
  digest.update(header.subspan(kHeaderBytes));
  return digest.digest();
}

std::vector<std::byte> make_header(const IndexRequest& request, std::size_t block_bytes,
                                   std::uint64_t block_digest) {
  std::vector<std::byte> header(block_begin(request.description.size()));
  const auto put = [&](std::size_t at, const auto& value) {
    std::memcpy(header.data() + at, &value, sizeof(value));
  };
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  put(8, kVersion);
  put(12, static_cast<std::uint32_t>(request.description.size()));
  put(16, static_cast<std::uint64_t>(block_bytes));
  put(kBlockDigestAt, block_digest);
  std::memcpy(header.data() + kHeaderBytes, request.description.data(), request.description.size());
  put(kDigestAt, header_digest(header));
  return header;
}

void write_index(const fs::path& path, const IndexRequest& request,
                 std::span<const std::byte> block, const std::function<void()>& poll) {
  DurableFile file(path);
  file.write(make_header(request, block.size(), xxh3(block)));
  for (std::size_t done = 0; done < block.size(); done += kWrittenBetweenPolls) {
    if (poll) poll();
    file.write(block.subspan(done, std::min(kWrittenBetweenPolls, block.size() - done)));
  }
  file.commit();
}

// The block after a header, if it is the requested one. Does not check for damage.
std::span<const std::byte> announced_block(std::span<const std::byte> file,
                                           const IndexRequest& request, const std::string& path) {
  if (file.size() < kHeaderBytes) {
    throw DataError("{}: the header ends after {} of {} bytes", path, file.size(), kHeaderBytes);
  }
  if (std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0) {
    throw DataError("{}: no cached index (it does not begin with {})", path, kMagic);
  }
  if (const auto version = load<std::uint32_t>(file, 8); version != kVersion) {
    throw DataError("{}: version {} of a cached index, only version {} is known", path, version,
                    kVersion);
  }
  const std::size_t description_bytes = load<std::uint32_t>(file, 12);
  if (description_bytes > kLongestDescription || block_begin(description_bytes) > file.size()) {
    throw DataError("{}: a description of {} bytes does not fit a file of {}", path,
                    description_bytes, file.size());
  }
  const auto header = file.first(block_begin(description_bytes));
  const auto block = file.subspan(header.size());
  if (load<std::uint64_t>(file, kDigestAt) != header_digest(header)) {
    throw DataError("{}: the header is damaged (its digest differs)", path);
  }
  const std::string_view description(reinterpret_cast<const char*>(file.data()) + kHeaderBytes,
                                     description_bytes);
  if (description != request.description) {
    throw DataError("{}: was made from something else", path);
  }
  const auto bytes = load<std::uint64_t>(file, 16);
  const auto needed = static_cast<std::uint64_t>(request.bytes.value_or(std::ssize(block)));
  if (bytes != block.size() || bytes != needed) {
    throw DataError("{}: {} bytes of arrays are announced and {} there; {} are needed", path, bytes,
                    block.size(), needed);
  }
  return block;
}

// Nothing where there is no file, or not this one; the reason goes to `why`.
std::optional<IndexBlock> open_index(const fs::path& path, const IndexRequest& request,
                                     std::string& why, decltype(announced_block)* read) {
  std::error_code unreadable;  // is reported by the mapping
  if (!fs::exists(path, unreadable) && !unreadable) return std::nullopt;
  try {
    const auto file = std::make_shared<const MappedFile>(path);
    return IndexBlock{
        .bytes = read(file->bytes(), request, path.string()), .owner = file, .file = path.string()};
  } catch (const InputMissingError&) {
    return std::nullopt;  // removed in between
  } catch (const Error& error) {
    why = error.what();
    return std::nullopt;
  }
}

IndexBlock build_block(const IndexRequest& request, const IndexCache::Build& build) {
  IndexBlock block = build();
  PHALANX_CHECK(!request.bytes || std::ssize(block.bytes) == *request.bytes, "{} bytes, not {}",
                block.bytes.size(), *request.bytes);
  return block;
}

// Tells the user which process is waited for.
class WaitingLine {
 public:
  explicit WaitingLine(fs::path path) : path_(std::move(path)) {}
  void pause(const std::function<void()>& poll) {
    if (poll) poll();
    std::this_thread::sleep_for(kPause);
    if (Clock::now() < next_) return;
    log_info("> waiting for {} to build {}", BuildLock::holder(path_), path_.string());
    next_ = Clock::now() + kBetweenLines;
  }

 private:
  using Clock = std::chrono::steady_clock;

  fs::path path_;
  Clock::time_point next_ = Clock::now() + kQuietWait;
};

}  // namespace

IndexCache::IndexCache(fs::path directory, std::string flag)
    : directory_(std::move(directory)), flag_(std::move(flag)) {}

fs::path IndexCache::path_of(const IndexRequest& request) const {
  return directory_ /
         fmt::format("{}-{}.index", request.name, digest_to_text(xxh3(request.description)));
}

std::span<const std::byte> IndexCache::parse(std::span<const std::byte> file,
                                             const IndexRequest& request, const std::string& path) {
  const auto block = announced_block(file, request, path);
  if (load<std::uint64_t>(file, kBlockDigestAt) != xxh3(block)) {
    throw DataError("{}: the arrays are damaged (their digest differs)", path);
  }
  return block;
}

IndexBlock IndexCache::get(const IndexRequest& request, const Build& build,
                           const std::function<void()>& poll) const {
  PHALANX_CHECK(request.description.size() <= kLongestDescription, "a description of {} bytes",
                request.description.size());
  const fs::path path = path_of(request);
  std::string why;
  WaitingLine line(path);
  while (true) {
    if (auto found = open_index(path, request, why, parse)) return *found;
    if (!prepare()) break;
    bool has_waited = false;
    std::optional<BuildLock> lock = take_lock(path);
    while (!lock && !is_unusable_) {
      has_waited = true;
      line.pause(poll);
      lock = take_lock(path);
    }
    if (!lock) break;
    // The process that we waited for has written the file. All that waited verify it at the same
    // time, without the lock.
    if (has_waited) continue;
    why.clear();
    if (auto found = open_index(path, request, why, parse)) return *found;
    if (!why.empty()) log_warning("{}: it is made anew", why);
    return build_and_keep(request, build, poll);
  }
  if (!why.empty()) log_warning("{}: it is not used", why);
  return build_block(request, build);
}

std::optional<IndexBlock> IndexCache::find(const IndexRequest& request) const {
  std::string why;
  auto found = open_index(path_of(request), request, why, parse);
  if (!why.empty()) log_warning("{}: it is not used", why);
  return found;
}

void IndexCache::put(const IndexRequest& request, std::span<const std::byte> block) const {
  PHALANX_CHECK(!request.bytes || std::ssize(block) == *request.bytes, "{} bytes, not {}",
                block.size(), *request.bytes);
  if (!prepare()) return;
  try {
    write_index(path_of(request), request, block, nullptr);
  } catch (const OutputError& error) {
    give_up(error.what());
  }
}

IndexBlock IndexCache::build_and_keep(const IndexRequest& request, const Build& build,
                                      const std::function<void()>& poll) const {
  IndexBlock block = build_block(request, build);
  const fs::path path = path_of(request);
  try {
    write_index(path, request, block.bytes, poll);
  } catch (const OutputError& error) {
    give_up(error.what());
    return block;
  }
  // Maps the file, so that the system can reclaim the memory and the processes of a host share it.
  // It is not verified, because that would need the memory twice, and it was just written.
  std::string why;
  if (auto found = open_index(path, request, why, announced_block)) return *found;
  return block;
}

std::optional<BuildLock> IndexCache::take_lock(const fs::path& path) const {
  try {
    return BuildLock::take(path);
  } catch (const OutputError& error) {
    give_up(error.what());
    return std::nullopt;
  }
}

bool IndexCache::prepare() const {
  if (is_unusable_) return false;
  try {
    create_directories_durably(directory_);
    return true;
  } catch (const OutputError& error) {
    give_up(error.what());
    return false;
  }
}

void IndexCache::give_up(const std::string& reason) const {
  if (is_unusable_.exchange(true)) return;
  log_warning("{} {}: {}: nothing is kept there, and what it would hold is made at every start",
              flag_, directory_.string(), reason);
}

}  // namespace phalanx
