// Whole tensors in safetensors files.

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/input_file.h"
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/checkpoint/stored_tensors.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// Rows of at least this size are read one by one where a part of each is wanted: shorter ones come
// with what lies between them.
constexpr std::int64_t kLongRow = 4096;

class WholeTensors final : public StoredTensors {
 public:
  WholeTensors(const fs::path& directory, const Manifest& manifest, Verify verify)
      : directory_(directory), manifest_(manifest) {
    for (const auto& file : manifest.files) {
      const bool is_wanted = !is_of_weights(verify) || file.name != kOptimizerFileName;
      if (!is_wanted || is_copy_name(file.name)) continue;
      RandomAccessFile opened(directory / file.name);
      if (opened.size() != file.bytes) {
        throw DataError("{}: has {} bytes, the manifest says {}", opened.path().string(),
                        opened.size(), file.bytes);
      }
      files_.emplace(file.name, SafetensorsFile(std::move(opened)));
    }
    check_entries();
    // Last, because it reads all files: cheap checks come first.
    if (verify == Verify::kYes || verify == Verify::kWeights) verify_all();
  }

  void read(const Manifest::Entry& entry, const MatrixBox& box,
            std::span<std::byte> to) const override {
    check_read(entry, box, to);
    const SafetensorsFile& file = opened(entry);
    const std::int64_t columns = matrix_columns(entry.shape);
    const std::int64_t size = size_of(entry.dtype);
    const std::int64_t begin = file.offset_of(*file.find(entry.name));
    const auto read = [&](std::int64_t element, std::byte* into, std::int64_t count) {
      file.file().read(begin + element * size, {into, static_cast<std::size_t>(count * size)});
    };
    if (box.columns == columns || box.rows <= 1) {
      read(box.row * columns + box.column, to.data(), box.count());
    } else if (box.columns * size >= kLongRow) {
      for (std::int64_t row = 0; row < box.rows; ++row) {
        read((box.row + row) * columns + box.column, to.data() + row * box.columns * size,
             box.columns);
      }
    } else {
      std::vector<std::byte> rows;
      const MatrixBox wide{.row = box.row, .rows = box.rows, .columns = columns};
      for_pieces(wide, std::max(kReadBytes / size, columns), [&](const MatrixBox& piece) {
        rows.resize(static_cast<std::size_t>(piece.count() * size));
        read(piece.row * columns, rows.data(), piece.count());
        for (std::int64_t row = 0; row < piece.rows; ++row) {
          std::memcpy(to.data() + (piece.row + row - box.row) * box.columns * size,
                      rows.data() + (row * columns + box.column) * size,
                      static_cast<std::size_t>(box.columns * size));
        }
      });
    }
  }

  // A tensor has one digest, so one reader reads all of it.
  std::vector<StoredUnit> units(std::span<const Manifest::Entry* const> wanted) const override {
    std::vector<StoredUnit> units;
    for (const Manifest::Entry* entry : wanted) {
      StoredUnit unit;
      const std::int64_t size = size_of(entry->dtype);
      for_pieces(whole_box(entry->shape), kReadBytes / size, [&](const MatrixBox& piece) {
        unit.push_back({.source = static_cast<std::size_t>(entry - manifest_.tensors.data()),
                        .number = std::ssize(unit),
                        .bytes = piece.count() * size,
                        .pieces = {{.entry = entry, .box = piece}}});
      });
      if (!unit.empty()) units.push_back(std::move(unit));
    }
    return units;
  }

  std::unique_ptr<ChunkReader> chunk_reader() const override;

  void verify_all() const override {
    for (const auto& file : manifest_.files) {
      const auto opened = files_.find(file.name);
      if (opened == files_.end()) continue;
      if (digest_of(opened->second, 0, file.bytes) == file.xxh3) continue;
      find_damage(file, opened->second);
    }
  }

 private:
  class Chunks;

  const SafetensorsFile& opened(const Manifest::Entry& entry) const {
    const auto found = files_.find(entry.file);
    PHALANX_CHECK(found != files_.end(), "{}: {} is not open", directory_.string(), entry.file);
    return found->second;
  }

  void check_entries() const {
    std::map<std::string_view, std::string_view> places;  // the file of each tensor
    for (const auto& entry : manifest_.tensors) {
      places[entry.name] = entry.file;
      const auto opened = files_.find(entry.file);
      if (opened == files_.end()) continue;
      const SafetensorsFile& file = opened->second;
      const auto* stored = file.find(entry.name);
      if (stored == nullptr) {
        throw DataError("{}: tensor {} of the manifest is missing", file.path().string(),
                        entry.name);
      }
      if (stored->dtype != entry.dtype || stored->shape != entry.shape) {
        throw DataError("{}: tensor {} is {} {}, the manifest says {} {}", file.path().string(),
                        entry.name, stored->type, stored->shape.to_string(), name_of(entry.dtype),
                        entry.shape.to_string());
      }
    }
    for (const auto& [name, file] : files_) {
      for (const auto& stored : file.entries()) {
        const auto place = places.find(stored.name);
        if (place == places.end() || place->second != name) {
          throw DataError("{}: tensor {} is not in the manifest", file.path().string(),
                          stored.name);
        }
      }
    }
  }

  static std::uint64_t digest_of(const SafetensorsFile& file, std::int64_t offset,
                                 std::int64_t bytes) {
    Xxh3 digest;
    file.file().visit(offset, bytes, [&](std::span<const std::byte> b) { digest.update(b); });
    return digest.digest();
  }

  // A second pass over a damaged file finds the place.
  [[noreturn]] void find_damage(const Manifest::File& damaged, const SafetensorsFile& file) const {
    for (const auto& entry : manifest_.tensors) {
      if (entry.file != damaged.name) continue;
      const SafetensorsEntry& stored = *file.find(entry.name);
      const std::uint64_t digest = digest_of(file, file.offset_of(stored), stored.bytes);
      if (digest == entry.xxh3) continue;
      throw DataError("{}: tensor {} is damaged: its digest is {}, the manifest says {}",
                      file.path().string(), entry.name, digest_to_text(digest),
                      digest_to_text(entry.xxh3));
    }
    throw DataError("{}: damaged: its digest is not the manifest's", file.path().string());
  }

  fs::path directory_;
  const Manifest& manifest_;
  std::map<std::string, SafetensorsFile, std::less<>> files_;
};

class WholeTensors::Chunks final : public ChunkReader {
 public:
  explicit Chunks(const WholeTensors& tensors) : tensors_(tensors) {}

  void read(const StoredChunk& chunk, std::span<std::byte> to) override {
    const auto& [entry, box, offset] = chunk.pieces.front();
    if (chunk.number == 0) {
      digest_ = {};
      digested_ = 0;
    }
    const std::int64_t element = box.row * matrix_columns(entry->shape) + box.column;
    PHALANX_CHECK(digested_ == element, "{}: element {} is read after {}", entry->name, element,
                  digested_);
    tensors_.read(*entry, box, to);
    bytes_read_ += chunk.bytes;
    digest_.update(to);
    digested_ += box.count();
    if (digested_ < entry->shape.count()) return;
    if (const std::uint64_t digest = digest_.digest(); digest != entry->xxh3) {
      throw DataError("{}: tensor {} is damaged: its digest is {}, the manifest says {}",
                      tensors_.opened(*entry).path().string(), entry->name, digest_to_text(digest),
                      digest_to_text(entry->xxh3));
    }
  }

 private:
  const WholeTensors& tensors_;
  Xxh3 digest_;
  std::int64_t digested_ = 0;  // elements of a tensor
};

std::unique_ptr<ChunkReader> WholeTensors::chunk_reader() const {
  return std::make_unique<Chunks>(*this);
}

}  // namespace

std::unique_ptr<const StoredTensors> open_whole_tensors(const fs::path& directory,
                                                        const Manifest& manifest, Verify verify) {
  return std::make_unique<WholeTensors>(directory, manifest, verify);
}

void check_read(const Manifest::Entry& entry, const MatrixBox& box, std::span<const std::byte> to) {
  const MatrixBox whole = whole_box(entry.shape);
  PHALANX_CHECK(box.row >= 0 && box.rows >= 0 && box.rows <= whole.rows - box.row &&
                    box.column >= 0 && box.columns >= 0 &&
                    box.columns <= whole.columns - box.column,
                "{}: rows {} to {} and columns {} to {} of {}", entry.name, box.row,
                box.row + box.rows, box.column, box.column + box.columns, entry.shape.to_string());
  PHALANX_CHECK(std::ssize(to) == box.count() * size_of(entry.dtype), "{}: {} bytes for {} {}",
                entry.name, to.size(), box.count(), name_of(entry.dtype));
}

}  // namespace phalanx
