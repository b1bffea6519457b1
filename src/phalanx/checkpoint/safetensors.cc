#include "phalanx/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/lfs_pointer.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/checked.h"
#include "phalanx/checkpoint/strict_json.h"

namespace phalanx {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are read in place");

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kAlignment = 8;
// The format's own limit.
constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr std::size_t kLongestName = 1024;
constexpr std::size_t kLongestMetadata = std::size_t{1} << 20;
constexpr std::string_view kMetadataKey = "__metadata__";

constexpr std::array<std::pair<std::string_view, DType>, 7> kDTypeNames = {{
    {"F64", DType::kF64},
    {"F32", DType::kF32},
    {"BF16", DType::kBF16},
    {"F16", DType::kF16},
    {"I64", DType::kI64},
    {"I32", DType::kI32},
    {"U8", DType::kU8},
}};

// Bytes of an element of the types that only other programs use.
constexpr std::array<std::pair<std::string_view, std::int64_t>, 8> kForeignTypes = {{
    {"BOOL", 1},
    {"I8", 1},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"I16", 2},
    {"U16", 2},
    {"U32", 4},
    {"U64", 8},
}};

std::optional<DType> dtype_of(std::string_view stored_name) {
  for (const auto& [name, dtype] : kDTypeNames) {
    if (name == stored_name) return dtype;
  }
  return std::nullopt;
}

// Bytes of an element; 0 for an unknown type.
std::int64_t element_bytes(std::string_view stored_name) {
  if (const auto dtype = dtype_of(stored_name)) return size_of(*dtype);
  for (const auto& [name, bytes] : kForeignTypes) {
    if (name == stored_name) return bytes;
  }
  return 0;
}

std::string_view stored_name_of(DType dtype) {
  for (const auto& [name, named] : kDTypeNames) {
    if (named == dtype) return name;
  }
  return {};
}

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

SafetensorsEntry read_entry(const std::string& name, const nlohmann::json& value,
                            const std::string& path) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  if (name.empty() || name.size() > kLongestName || has_control_characters(name)) {
    throw DataError("{}: a tensor's name is empty, longer than {} bytes or not printable", path,
                    kLongestName);
  }
  JsonObject object(value, fmt::format("{}: tensor {}", path, name));
  SafetensorsEntry entry;
  entry.name = name;

  entry.type = object.text("dtype", 16);
  entry.dtype = dtype_of(entry.type);
  const std::int64_t element = element_bytes(entry.type);
  if (element == 0) {
    throw DataError("{}: dtype {} is not known", object.where(), json_string(entry.type));
  }
  entry.shape = object.shape("shape");
  const auto bytes = checked_bytes(element, entry.shape);
  if (!bytes) throw DataError("{}: the shape does not fit in 64 bits", object.where());
  entry.bytes = *bytes;

  const auto range = object.integers("data_offsets", 0, kMax);
  if (range.size() != 2 || range[0] > range[1]) {
    throw DataError("{}: data_offsets must be [begin, end] with begin <= end", object.where());
  }
  entry.offset = range[0];
  if (range[1] - range[0] != entry.bytes) {
    throw DataError("{}: data_offsets [{}, {}] hold {} bytes, {} {} needs {}", object.where(),
                    range[0], range[1], range[1] - range[0], entry.type, entry.shape.to_string(),
                    entry.bytes);
  }
  object.finish();
  return entry;
}

}  // namespace

bool is_tensor_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && name != kMetadataKey &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

SafetensorsFile::SafetensorsFile(RandomAccessFile file) : file_(std::move(file)) {
  const std::filesystem::path& path = file_.path();
  const std::int64_t size = file_.size();
  refuse_lfs_pointer(path);
  if (size < kLengthBytes) {
    throw DataError("{}: {} bytes are too few for a safetensors file", path.string(), size);
  }
  std::uint64_t length = 0;
  file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kLongestHeader) {
    throw DataError("{}: a header of {} bytes is longer than the limit of {}", path.string(),
                    length, kLongestHeader);
  }
  const std::int64_t rest = size - kLengthBytes;
  if (std::cmp_greater(length, rest)) {
    throw DataError("{}: the header has {} bytes and the file ends after {} of them", path.string(),
                    length, rest);
  }
  std::string header(static_cast<std::size_t>(length), '\0');
  file_.read(kLengthBytes, std::as_writable_bytes(std::span(header)));
  data_ = kLengthBytes + std::ssize(header);
  read_header(header);
  check_ranges();
}

void SafetensorsFile::read_header(std::string_view header) {
  const std::string path = file_.path().string();
  if (!header.starts_with('{')) throw DataError("{}: the header is not a JSON object", path);
  const nlohmann::json json = parse_strict_json(header, path);
  for (const auto& item : json.items()) {
    if (item.key() != kMetadataKey) {
      entries_.push_back(read_entry(item.key(), item.value(), path));
      continue;
    }
    JsonObject object(item.value(), fmt::format("{}: {}", path, kMetadataKey));
    for (const auto& field : item.value().items()) {
      metadata_[field.key()] = object.text(field.key(), kLongestMetadata);
    }
  }
  // Empty tensors have no place of their own: they go before what starts at the same byte.
  std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  for (std::size_t i = 0; i < entries_.size(); ++i) index_[entries_[i].name] = i;
}

void SafetensorsFile::check_ranges() const {
  const std::string path = file_.path().string();
  const std::int64_t data = file_.size() - data_;
  std::int64_t end = 0;
  for (const auto& entry : entries_) {
    if (entry.offset < end) {
      throw DataError(
          "{}: tensor {} starts at byte {} of the data, inside another tensor that ends at {}",
          path, entry.name, entry.offset, end);
    }
    if (entry.offset > end) {
      throw DataError(
          "{}: tensor {} starts at byte {} of the data, and bytes {} to {} belong to no tensor",
          path, entry.name, entry.offset, end, entry.offset);
    }
    if (entry.bytes > data - entry.offset) {
      throw DataError("{}: tensor {} needs {} bytes from byte {} of the data, which has {}", path,
                      entry.name, entry.bytes, entry.offset, data);
    }
    end = entry.offset + entry.bytes;
  }
  if (end != data) {
    throw DataError("{}: {} bytes after the last tensor", path, data - end);
  }
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

std::span<const std::byte> MappedSafetensors::bytes(const SafetensorsEntry& entry) const {
  const auto all = map_.bytes();
  const std::int64_t begin = offset_of(entry);
  if (std::ssize(all) < begin + entry.bytes) {
    throw DataError("{}: became shorter while it was opened", path().string());
  }
  return all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(entry.bytes));
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::span<const Item> items,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += fmt::format("{}:{{", json_string(kMetadataKey));
    for (const auto& [key, value] : metadata) {
      if (header.back() != '{') header += ',';
      header += fmt::format("{}:{}", json_string(key), json_string(value));
    }
    header += '}';
  }
  std::int64_t end = 0;
  for (const auto& item : items) {
    const auto bytes = checked_bytes(item.dtype, item.shape);
    PHALANX_CHECK(is_tensor_name(item.name) && bytes, "{}: not a tensor that can be stored",
                  item.name);
    if (header.size() > 1) header += ',';
    header += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          json_string(item.name), stored_name_of(item.dtype),
                          fmt::join(item.shape, ","), end, end + *bytes);
    end += *bytes;
  }
  header += '}';
  header.resize(static_cast<std::size_t>(round_up(std::ssize(header), kAlignment)), ' ');
  // Data that could not be read again must not be written.
  if (header.size() > kLongestHeader) {
    throw OutputError("{}: {} tensors need a header of {} bytes, longer than the limit of {}",
                      path.string(), items.size(), header.size(), kLongestHeader);
  }

  const std::uint64_t length = header.size();
  put(std::as_bytes(std::span(&length, 1)));
  put(std::as_bytes(std::span(header)));
  size_ = kLengthBytes + std::ssize(header) + end;
}

void SafetensorsWriter::put(std::span<const std::byte> bytes) {
  hash_.update(bytes);
  file_.write(bytes);
  written_ += std::ssize(bytes);
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  PHALANX_CHECK(std::ssize(bytes) <= size_ - written_, "more data than the tensors hold");
  put(bytes);
}

FileDigest SafetensorsWriter::commit() {
  PHALANX_CHECK(written_ == size_, "{} bytes of data are missing", size_ - written_);
  file_.commit();
  return {.bytes = size_, .xxh3 = hash_.digest()};
}

}  // namespace phalanx
