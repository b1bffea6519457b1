#include "phalanx/checkpoint/memory_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/numeric.h"
#include "phalanx/base/parse_number.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/seal.h"
#include "phalanx/checkpoint/strict_json.h"

namespace phalanx {
namespace {

constexpr std::string_view kFormat = "phalanx-memory";
constexpr std::string_view kSealKey = "header_xxh3";
constexpr std::int64_t kHeaderBytes = std::int64_t{64} << 10;
constexpr std::int64_t kBlockBytes = std::int64_t{8} << 20;
constexpr std::size_t kLongestText = std::size_t{1} << 16;
constexpr std::int64_t kMost = std::int64_t{1} << 60;

// Where a file lies in the memory file of a descriptor.
struct Place {
  int descriptor = -1;
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
};

struct Header {
  std::string epoch;
  std::map<std::string, Place, std::less<>> files;
};

// The system's name of a descriptor of this process.
std::string path_of(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

void write_at(int descriptor, std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = ::pwrite(descriptor, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw IoError("a memory file of phalanx launch cannot be written: {}",
                    written == 0 ? "it takes nothing" : std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
}

// Empty where the file holds nothing.
std::optional<Header> read_header(int descriptor) {
  std::string text(static_cast<std::size_t>(kHeaderBytes), '\0');
  const auto got = ::pread(descriptor, text.data(), text.size(), 0);
  if (got <= 0) return std::nullopt;
  text.resize(std::min(text.find('\0'), static_cast<std::size_t>(got)));
  if (text.empty()) return std::nullopt;
  const std::string where = path_of(descriptor);
  try {
    const nlohmann::json json = parse_strict_json(text, where);
    check_seal(text, kSealKey, where);
    JsonObject object(json, where);
    if (object.text("format", kLongestText) != kFormat) return std::nullopt;
    Header header{.epoch = object.text("epoch", kLongestText), .files = {}};
    for (const auto& item : object.array("files")) {
      JsonObject file(item, where);
      header.files[file.text("name", kLongestText)] = {.descriptor = descriptor,
                                                       .begin = file.integer("begin", 0, kMost),
                                                       .bytes = file.integer("bytes", 0, kMost)};
    }
    return header;
  } catch (const Error&) {
    return std::nullopt;  // a header that was being written
  }
}

class FilesInMemory final : public CheckpointFiles {
 public:
  FilesInMemory(const MemoryFiles& files, std::string epoch) : epoch_(std::move(epoch)) {
    for (const int descriptor : files.descriptors()) {
      auto header = read_header(descriptor);
      if (header && header->epoch == epoch_) files_.merge(header->files);
    }
  }

  std::string place() const override {
    return fmt::format("the memory of phalanx launch (snapshot {})", epoch_);
  }
  std::string path(std::string_view name) const override {
    return fmt::format("{} in {}", name, place());
  }
  StoredFile open(std::string_view name) const override {
    const auto found = files_.find(name);
    if (found == files_.end()) throw InputMissingError("{}: is not there", path(name));
    const auto& [descriptor, begin, bytes] = found->second;
    return {RandomAccessFile(path_of(descriptor)), begin, bytes, path(name)};
  }
  bool has(std::string_view name) const { return files_.contains(name); }

 private:
  std::string epoch_;
  std::map<std::string, Place, std::less<>> files_;
};

}  // namespace

MemoryFiles MemoryFiles::make(int ranks) {
  MemoryFiles files;
  for (int i = 0; i < ranks * kMemoryFilesOfRank; ++i) {
    FileDescriptor made(::memfd_create("phalanx-snapshot", MFD_CLOEXEC));
    if (!made.is_open()) return {};
    files.descriptors_.push_back(made.get());
    files.owned_.push_back(std::move(made));
  }
  return files;
}

std::string MemoryFiles::to_text() const { return fmt::format("{}", fmt::join(descriptors_, ",")); }

MemoryFiles MemoryFiles::inherited(std::string_view text, std::string_view variable) {
  MemoryFiles files;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const auto descriptor = parse_number<int>(std::string(rest.substr(0, end)));
    struct stat status {};
    if (!descriptor || *descriptor < 0 || ::fstat(*descriptor, &status) != 0 ||
        !S_ISREG(status.st_mode)) {
      throw UsageError("{}={}: not the descriptors of memory files that phalanx launch passes on",
                       variable, text.substr(0, 80));
    }
    files.descriptors_.push_back(*descriptor);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (files.descriptors_.size() % kMemoryFilesOfRank != 0) {
    throw UsageError("{}={}: not {} memory files for each rank", variable, text.substr(0, 80),
                     kMemoryFilesOfRank);
  }
  return files;
}

std::int64_t MemoryFiles::bytes() const {
  constexpr std::int64_t kUnit = 512;  // of st_blocks
  std::int64_t bytes = 0;
  for (const int descriptor : descriptors_) {
    struct stat status {};
    if (::fstat(descriptor, &status) == 0) bytes += status.st_blocks * kUnit;
  }
  return bytes;
}

MemoryFileWriter::MemoryFileWriter(int descriptor, std::string epoch)
    : descriptor_(descriptor), epoch_(std::move(epoch)), end_(kHeaderBytes) {
  const std::vector<std::byte> nothing(static_cast<std::size_t>(kHeaderBytes));
  write_at(descriptor_, 0, nothing);
}

void MemoryFileWriter::put(std::span<const std::byte> bytes) {
  write_at(descriptor_, end_, bytes);
  end_ += std::ssize(bytes);
}

void MemoryFileWriter::add(std::string_view name, std::string_view content) {
  entries_.push_back({std::string(name), end_, std::ssize(content)});
  put(std::as_bytes(std::span(content)));
}

void MemoryFileWriter::begin_part(std::int64_t rank, const std::vector<PartWriter::Piece>& pieces) {
  index_ = part_index_of(epoch_, rank, pieces, kBlockBytes);
  written_ = 0;
  entries_.push_back({part_data_name(rank), end_, index_.bytes});
}

void MemoryFileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::int64_t rest = kBlockBytes - written_ % kBlockBytes;
    const auto now = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(rest)));
    block_.update(now);
    put(now);
    written_ += std::ssize(now);
    bytes = bytes.subspan(now.size());
    if (written_ % kBlockBytes == 0 || written_ == index_.bytes) {
      index_.blocks.push_back(block_.digest());
      block_ = {};
    }
  }
}

Manifest::Part MemoryFileWriter::finish_part() {
  PHALANX_CHECK(written_ == index_.bytes, "a part of {} bytes, {} are written", index_.bytes,
                written_);
  const std::string text = part_index_to_json(index_);
  add(part_index_name(index_.rank), text);
  return {.rank = index_.rank,
          .bytes = index_.bytes,
          .index_bytes = std::ssize(text),
          .index_xxh3 = xxh3(text)};
}

void MemoryFileWriter::seal() {
  std::vector<std::string> files;
  for (const auto& [name, begin, bytes] : entries_) {
    files.push_back(fmt::format(R"({{"name": {}, "begin": {}, "bytes": {}}})", json_string(name),
                                begin, bytes));
  }
  std::string text = fmt::format("{{\n  \"format\": \"{}\",\n  \"epoch\": {},\n  \"files\": [{}],",
                                 kFormat, json_string(epoch_), fmt::join(files, ", "));
  text += seal_of(text, kSealKey);
  PHALANX_CHECK(std::ssize(text) < kHeaderBytes, "a header of {} bytes", text.size());
  write_at(descriptor_, 0, std::as_bytes(std::span(text)));
}

std::string epoch_in_memory(int descriptor) {
  const auto header = read_header(descriptor);
  return header ? header->epoch : std::string();
}

std::vector<MemoryCheckpoint> memory_checkpoints(const MemoryFiles& files) {
  std::vector<MemoryCheckpoint> found;
  for (const int descriptor : files.descriptors()) {
    const auto header = read_header(descriptor);
    if (!header || !header->files.contains(kManifestName)) continue;
    const FilesInMemory place(files, header->epoch);
    try {
      const std::string text = place.open(kManifestName).text();
      MemoryCheckpoint one{.epoch = header->epoch,
                           .manifest = parse_manifest(text, place.path(kManifestName)),
                           .manifest_digest = digest_to_text(xxh3(text))};
      const bool is_complete = std::ranges::all_of(one.manifest.parts, [&](const auto& part) {
        return place.has(part_index_name(part.rank)) && place.has(part_data_name(part.rank));
      });
      if (is_complete) found.push_back(std::move(one));
    } catch (const Error&) {
      continue;  // not a checkpoint that can be used
    }
  }
  std::ranges::sort(found, std::greater{}, [](const MemoryCheckpoint& one) {
    return std::tuple(one.manifest.start, one.manifest.iteration);
  });
  return found;
}

std::unique_ptr<const CheckpointFiles> files_in_memory(const MemoryFiles& files,
                                                       const std::string& epoch) {
  auto place = std::make_unique<const FilesInMemory>(files, epoch);
  if (!place->has(kManifestName)) throw InputMissingError("{}: is not there", place->place());
  return place;
}

}  // namespace phalanx
