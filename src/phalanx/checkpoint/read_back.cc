#include "phalanx/checkpoint/read_back.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/input_descriptor.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/part_index.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBlock = std::int64_t{8} << 20;

struct GivenUp {};

// A file, block by block, past what the page cache has of it.
class DiskFile {
 public:
  DiskFile(const fs::path& path, std::int64_t bytes) : path_(path), file_(path) {
    if (static_cast<std::int64_t>(file_.size()) != bytes) {
      throw DataError("{}: has {} bytes, not {}", path.string(), file_.size(), bytes);
    }
    // What was synced is dropped; where the file system keeps it, it is read from memory.
    ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  ~DiskFile() { ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED); }
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  // The next bytes.
  std::span<const std::byte> read(std::int64_t bytes, const ReadPace& pace) {
    block_.resize(static_cast<std::size_t>(bytes));
    const auto begin = Clock::now();
    for (std::int64_t done = 0; done < bytes;) {
      const ssize_t got =
          ::pread(file_.get(), block_.data() + done, static_cast<std::size_t>(bytes - done), at_);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        throw IoError("{}: cannot read beyond byte {}: {}", path_.string(), at_,
                      got == 0 ? "the file became shorter" : std::strerror(errno));
      }
      done += got;
      at_ += got;
    }
    if (!pace(Clock::now() - begin)) throw GivenUp{};
    return block_;
  }

 private:
  fs::path path_;
  InputDescriptor file_;
  std::vector<std::byte> block_;
  std::int64_t at_ = 0;
};

void expect_file(const fs::path& path, const Manifest::File& expected, const ReadPace& pace) {
  DiskFile file(path, expected.bytes);
  Xxh3 hash;
  for (std::int64_t at = 0; at < expected.bytes; at += kBlock) {
    hash.update(file.read(std::min(kBlock, expected.bytes - at), pace));
  }
  if (hash.digest() != expected.xxh3) {
    throw DataError("{}: damaged: its digest is not the manifest's", path.string());
  }
}

void expect_part(const fs::path& directory, const Manifest::Part& part, const ReadPace& pace) {
  const fs::path index_path = directory / part_index_name(part.rank);
  expect_file(index_path, {.name = {}, .bytes = part.index_bytes, .xxh3 = part.index_xxh3}, pace);
  const PartIndex index = parse_part_index(read_file(index_path), index_path.string());
  const fs::path path = directory / part_data_name(part.rank);
  DiskFile file(path, index.bytes);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < index.blocks.size(); ++i) {
    const std::int64_t bytes = std::min(index.block_bytes, index.bytes - at);
    if (xxh3(file.read(bytes, pace)) != index.blocks[i]) {
      throw DataError("{}: block {} is damaged: its digest is not the index's", path.string(), i);
    }
    at += bytes;
  }
}

}  // namespace

ReadBackOutcome read_back(const fs::path& checkpoint, const ReadPace& pace, std::string& fault) {
  try {
    const CheckpointReader reader(checkpoint, Verify::kNo);  // its headers, indices and coverage
    for (const auto& file : reader.manifest().files) {
      expect_file(checkpoint / file.name, file, pace);
    }
    for (const auto& part : reader.manifest().parts) expect_part(checkpoint, part, pace);
    return ReadBackOutcome::kWhole;
  } catch (const GivenUp&) {
    return ReadBackOutcome::kGivenUp;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    fault = error.what();
    return ReadBackOutcome::kDamaged;
  }
}

}  // namespace phalanx
