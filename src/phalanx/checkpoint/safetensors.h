#pragma once
// safetensors files: eight bytes of header length (little-endian), a JSON header that names every
// tensor's dtype, shape and byte range, then the data. Format: github.com/huggingface/safetensors.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/dtype.h"
#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/random_access_file.h"
#include "phalanx/base/shape.h"

namespace phalanx {

struct SafetensorsEntry {
  std::string name;
  std::string type;            // as the file names it: F32, BOOL
  std::optional<DType> dtype;  // none: a type whose values Phalanx cannot read
  Shape shape;
  std::int64_t offset = 0;  // from the start of the data
  std::int64_t bytes = 0;
};

// A file. Its header is checked when it is opened: the ranges lie inside the file, do not overlap
// and leave no hole, each is as long as dtype and shape ask, and names are unique.
class SafetensorsFile {
 public:
  // InputMissingError if there is no such file, IoError if it cannot be read, DataError if it is
  // malformed.
  explicit SafetensorsFile(const std::filesystem::path& path)
      : SafetensorsFile(RandomAccessFile(path)) {}
  explicit SafetensorsFile(RandomAccessFile file);

  // The tensors, in the order of their data.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const SafetensorsEntry* find(std::string_view name) const;
  // Where a tensor's bytes begin in the file.
  std::int64_t offset_of(const SafetensorsEntry& entry) const { return data_ + entry.offset; }
  // For reading its bytes.
  const RandomAccessFile& file() const { return file_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void read_header(std::string_view header);
  void check_ranges() const;

  RandomAccessFile file_;
  std::int64_t data_ = 0;  // where the data begins
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

// A file whose tensors are mapped read-only, for whoever reads them in any order.
class MappedSafetensors : public SafetensorsFile {
 public:
  explicit MappedSafetensors(const std::filesystem::path& path)
      : SafetensorsFile(path), map_(path) {}
  // The bytes of a tensor, not aligned to its elements. DataError if the file has become shorter.
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;

 private:
  MappedFile map_;
};

// Writes a file durably (base/file.h). Data is streamed; nothing is held in memory.
class SafetensorsWriter {
 public:
  struct Item {
    std::string name;  // printable ASCII
    DType dtype = DType::kF32;
    Shape shape;
  };

  // The data must be written in the order of the items. OutputError if the file cannot be created.
  SafetensorsWriter(const std::filesystem::path& path, std::span<const Item> items,
                    const std::map<std::string, std::string>& metadata = {});

  void write(std::span<const std::byte> bytes);
  // Call it when all data is written.
  FileDigest commit();

 private:
  void put(std::span<const std::byte> bytes);

  DurableFile file_;
  Xxh3 hash_;
  std::int64_t written_ = 0;
  std::int64_t size_ = 0;  // bytes of the whole file
};

// A name that the writers accept: 1 to 1,024 printable ASCII characters, not the reserved
// "__metadata__".
bool is_tensor_name(std::string_view name);

}  // namespace phalanx
