#include "phalanx/disk/block_engine.h"

#include <fmt/core.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace phalanx {
namespace {

constexpr std::array<std::string_view, 3> kEngineNames = {"auto", "io_uring", "threads"};

}  // namespace

std::string_view name_of(StorageEngine engine) {
  return kEngineNames[static_cast<std::size_t>(engine)];
}

Moved advance(BlockRequest& request, std::int64_t result, bool direct) {
  if (result == -EINTR || result == -EAGAIN) return Moved::kPart;
  const std::int64_t least = direct ? kStorageAlignment : 1;
  if (result < least) return Moved::kFailed;
  const std::int64_t moved = result / least * least;
  request.memory += moved;
  request.offset += moved;
  request.bytes -= moved;
  return request.bytes > 0 ? Moved::kPart : Moved::kAll;
}

std::string fault_text(const std::string& path, const BlockRequest& request, std::int64_t result) {
  std::string reason =
      request.is_write ? "the file system takes no more" : "the file became shorter";
  if (result < 0) reason = std::strerror(static_cast<int>(-result));
  return fmt::format("{}: cannot {} {} bytes at offset {}: {}", path,
                     request.is_write ? "write" : "read", request.bytes, request.offset, reason);
}

}  // namespace phalanx
