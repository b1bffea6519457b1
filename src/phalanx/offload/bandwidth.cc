#include "phalanx/offload/bandwidth.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <vector>

#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTile = std::int64_t{8} << 20;
constexpr std::size_t kTiles = 3;  // in memory: one is filled, one moves, one waits

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Measurement {
 public:
  Measurement(StorageFolder& folder, const BandwidthOptions& options)
      : options_(options),
        layout_(layout_of(options)),
        arena_("disk bandwidth", kTiles * (kTile + kStorageAlignment) +
                                     storage_bytes(options.storage) + checksum_bytes(layout_)) {
    for (std::span<std::byte>& tile : tiles_) {
      tile = std::as_writable_bytes(
          allocate_staging(arena_, DType::kU8, {kTile}).span<std::uint8_t>());
      fill(tile);
    }
    StorageOptions with_tiles = options.storage;
    with_tiles.staging.assign(tiles_.begin(), tiles_.end());
    storage_ = make_disk_storage(folder, with_tiles, arena_);
    file_ = storage_->create_file("bandwidth", layout_);
  }

  DiskBandwidth run() {
    DiskBandwidth result{.description = storage_->description()};
    // The first write to a file costs a file system more than later ones, which a step does.
    std::int64_t bytes = layout_.bytes();
    pass(bytes, [&](std::int64_t at, std::span<std::byte> tile) { return file_->write(at, tile); });
    const double write_s = pass(
        bytes, [&](std::int64_t at, std::span<std::byte> tile) { return file_->write(at, tile); });
    result.write_per_s = static_cast<double>(bytes) / write_s;
    const double read_s = pass(
        bytes, [&](std::int64_t at, std::span<std::byte> tile) { return file_->read(at, tile); });
    result.read_per_s = static_cast<double>(bytes) / read_s;
    result.bytes = bytes;
    bool writes = false;
    const double both_s = pass(bytes, [&](std::int64_t at, std::span<std::byte> tile) {
      writes = !writes;
      return writes ? file_->write(at, tile) : file_->read(at, tile);
    });
    result.both_per_s = static_cast<double>(bytes) / both_s;
    return result;
  }

 private:
  static FileLayout layout_of(const BandwidthOptions& options) {
    FileLayout layout(options.storage.block_bytes);
    const std::int64_t whole =
        round_up(std::max(options.file_bytes, kStorageAlignment), kStorageAlignment);
    for (std::int64_t at = 0; at < whole; at += kTile) layout.add(std::min(kTile, whole - at));
    return layout;
  }
  // Random bytes, which a disk cannot compress.
  static void fill(std::span<std::byte> tile) {
    std::mt19937_64 random(1234);
    for (std::byte& byte : tile) byte = static_cast<std::byte>(random());
  }

  // Moves the tiles of the first `bytes`, as many as the time allows, and sets `bytes` to what was
  // moved. The seconds until all of it is on the disk.
  template <typename Move>
  double pass(std::int64_t& bytes, const Move& move) {
    std::array<Work, kTiles> works;
    const auto start = Clock::now();
    std::int64_t at = 0;
    for (std::size_t i = 0; at < bytes; i = (i + 1) % kTiles) {
      if (at > 0 && (seconds_since(start) > options_.seconds || options_.is_stopped())) break;
      works[i].wait({});
      const std::int64_t length = std::min(kTile, bytes - at);
      works[i] = move(at, tiles_[i].first(static_cast<std::size_t>(length)));
      at += length;
    }
    for (const Work& work : works) work.wait({});
    bytes = at;
    file_->settle();
    return seconds_since(start);
  }

  const BandwidthOptions& options_;
  FileLayout layout_;
  Arena arena_;
  std::array<std::span<std::byte>, kTiles> tiles_;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<StateFile> file_;
};

}  // namespace

DiskBandwidth measure_bandwidth(StorageFolder& folder, const BandwidthOptions& options) {
  return Measurement(folder, options).run();
}

}  // namespace phalanx
