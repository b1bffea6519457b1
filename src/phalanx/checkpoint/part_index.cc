#include "phalanx/checkpoint/part_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/checkpoint/seal.h"
#include "phalanx/checkpoint/strict_json.h"

namespace phalanx {
namespace {

constexpr std::string_view kFormat = "phalanx-part";
constexpr std::int64_t kVersion = 1;
constexpr std::string_view kSealKey = "index_xxh3";
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kLongestText = std::size_t{256} << 20;
constexpr std::size_t kDigestDigits = 16;
constexpr std::size_t kNumbersOfBox = 4;
constexpr std::string_view kPrefix = "part-";

std::vector<std::uint64_t> read_blocks(JsonObject& object, const PartIndex& index) {
  // One string, because a list of thousands would be most of the index.
  const std::string digests = object.text("blocks", kLongestText);
  const std::int64_t count = ceil_div(index.bytes, index.block_bytes);
  if (std::ssize(digests) % static_cast<std::int64_t>(kDigestDigits) != 0 ||
      std::ssize(digests) / static_cast<std::int64_t>(kDigestDigits) != count) {
    throw DataError("{}: 'blocks' has {} digits, not {} for each of {} blocks", object.where(),
                    digests.size(), kDigestDigits, count);
  }
  std::vector<std::uint64_t> blocks;
  for (std::size_t at = 0; at < digests.size(); at += kDigestDigits) {
    const auto digest = digest_from_text(std::string_view(digests).substr(at, kDigestDigits));
    if (!digest) {
      throw DataError("{}: 'blocks': that of block {} is not hexadecimal", object.where(),
                      at / kDigestDigits);
    }
    blocks.push_back(*digest);
  }
  return blocks;
}

PartIndex::Piece read_piece(JsonObject object) {
  PartIndex::Piece piece;
  piece.tensor = object.text("tensor", kLongestText);
  if (!is_tensor_name(piece.tensor)) {
    throw DataError("{}: 'tensor' is not a tensor's name", object.where());
  }
  piece.offset = object.integer("offset", 0, kMax);
  const std::vector<std::int64_t> numbers = object.integers("boxes", 0, kMax);
  if (numbers.empty() || numbers.size() % kNumbersOfBox != 0) {
    throw DataError("{}: 'boxes' has {} numbers, not {} for each box", object.where(),
                    numbers.size(), kNumbersOfBox);
  }
  for (auto n = numbers.begin(); n != numbers.end(); n += kNumbersOfBox) {
    const MatrixBox box{n[0], n[1], n[2], n[3]};
    std::int64_t ignored = 0;
    if (box.rows == 0 || box.columns == 0 ||
        __builtin_mul_overflow(box.rows, box.columns, &ignored) ||
        __builtin_add_overflow(box.row, box.rows, &ignored) ||
        __builtin_add_overflow(box.column, box.columns, &ignored)) {
      throw DataError("{}: a box is empty or does not fit in 64 bits", object.where());
    }
    piece.boxes.push_back(box);
  }
  object.finish();
  return piece;
}

}  // namespace

std::string part_name(std::int64_t rank) { return fmt::format("{}{:05d}", kPrefix, rank); }
std::string part_data_name(std::int64_t rank) { return part_name(rank) + ".bin"; }
std::string part_index_name(std::int64_t rank) { return part_name(rank) + ".json"; }

bool is_part_file_name(std::string_view name) {
  return name.starts_with(kPrefix) && (name.ends_with(".bin") || name.ends_with(".json"));
}

std::int64_t PartIndex::Piece::elements() const {
  std::int64_t count = 0;
  for (const MatrixBox& box : boxes) count += box.count();
  return count;
}

std::string part_index_to_json(const PartIndex& index) {
  std::string digests;
  for (const std::uint64_t digest : index.blocks) digests += digest_to_text(digest);
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(
      out,
      "{{\n  \"format\": \"{}\",\n  \"format_version\": {},\n  \"epoch\": {},\n"
      "  \"rank\": {},\n  \"bytes\": {},\n  \"block_bytes\": {},\n  \"blocks\": \"{}\",\n"
      "  \"pieces\": [",
      kFormat, kVersion, json_string(index.epoch), index.rank, index.bytes, index.block_bytes,
      digests);
  for (const PartIndex::Piece& piece : index.pieces) {
    fmt::format_to(out, "{}\n    {{\"tensor\": {}, \"offset\": {}, \"boxes\": [",
                   &piece == &index.pieces.front() ? "" : ",", json_string(piece.tensor),
                   piece.offset);
    for (const MatrixBox& box : piece.boxes) {
      fmt::format_to(out, "{}{}, {}, {}, {}", &box == &piece.boxes.front() ? "" : ", ", box.row,
                     box.column, box.rows, box.columns);
    }
    text += "]}";
  }
  text += index.pieces.empty() ? "]," : "\n  ],";
  return text + seal_of(text, kSealKey);
}

PartIndex parse_part_index(std::string_view text, const std::string& path) {
  const nlohmann::json json = parse_strict_json(text, path);
  JsonObject object(json, path);
  if (object.text("format", kLongestText) != kFormat) {
    throw DataError("{}: 'format' must be {}", path, kFormat);
  }
  const std::int64_t version = object.integer("format_version", 1, kMax);
  if (version > kVersion) {
    throw ConfigError("{}: format version {}; this program reads versions up to {}", path, version,
                      kVersion);
  }
  check_seal(text, kSealKey, path);
  object.digest(std::string(kSealKey));
  PartIndex index;
  index.epoch = object.text("epoch", kLongestText);
  index.rank = object.integer("rank", 0, kMax);
  index.bytes = object.integer("bytes", 0, kMax);
  index.block_bytes = object.integer("block_bytes", 1, std::int64_t{1} << 30);
  index.blocks = read_blocks(object, index);
  for (const auto& piece : object.array("pieces")) {
    index.pieces.push_back(
        read_piece(JsonObject(piece, fmt::format("{}: pieces[{}]", path, index.pieces.size()))));
  }
  object.finish();
  return index;
}

}  // namespace phalanx
