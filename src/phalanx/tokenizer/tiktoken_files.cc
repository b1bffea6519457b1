#include "phalanx/tokenizer/tiktoken_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/parse_number.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

// Bounds the work of finding a token's parts; the longest known token has 128.
constexpr std::size_t kLongestToken = 1024;

std::optional<std::uint32_t> base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return std::nullopt;
}

// The base64 of RFC 4648: padded, nothing else in between.
std::optional<std::string> bytes_of_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size() - padding; ++i) {
    const auto digit = base64_digit(text[i]);
    if (!digit) return std::nullopt;
    bits = bits << 6 | *digit;
    const std::size_t place = i % 4;
    if (place != 0) bytes.push_back(static_cast<char>(bits >> (6 - 2 * place)));
  }
  return bytes;
}

// Tokens by rank, checked one by one.
class RankList {
 public:
  RankList(std::string file, std::size_t largest_rank)
      : file_(std::move(file)), largest_rank_(largest_rank) {}

  void add(const std::string& place, std::string_view base64, std::uint64_t rank) {
    auto bytes = bytes_of_base64(base64);
    if (!bytes) throw DataError("{}: {}: '{}' is not base64", file_, place, base64.substr(0, 40));
    if (bytes->empty()) throw DataError("{}: {}: the token is empty", file_, place);
    if (bytes->size() > kLongestToken) {
      throw DataError("{}: {}: the token has {} bytes; the limit is {}", file_, place,
                      bytes->size(), kLongestToken);
    }
    if (rank > largest_rank_) {
      throw DataError("{}: {}: rank {} is too large; it may be {}", file_, place, rank,
                      largest_rank_);
    }
    if (rank >= tokens_.size()) tokens_.resize(rank + 1);
    if (!tokens_[rank].empty()) throw DataError("{}: {}: rank {} again", file_, place, rank);
    if (!known_.insert(*bytes).second) {
      throw DataError("{}: {}: the token {} again", file_, place, base64);
    }
    tokens_[rank] = *std::move(bytes);
  }

  std::vector<std::string> take() && {
    for (int byte = 0; byte < 256; ++byte) {
      if (!known_.contains(std::string(1, static_cast<char>(byte)))) {
        throw DataError("{}: the token of byte 0x{:02x} is missing; all 256 must be there", file_,
                        byte);
      }
    }
    return std::move(tokens_);
  }

 private:
  std::string file_;
  std::size_t largest_rank_;
  std::vector<std::string> tokens_;
  std::unordered_set<std::string> known_;
};

}  // namespace

std::vector<std::string> read_tiktoken_ranks(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
  // Some vocabularies leave ranks out, where their special tokens are.
  RankList ranks(path.string(), 2 * lines + 1024);
  std::istringstream stream(text);
  std::string whole_line;
  for (std::size_t number = 1; std::getline(stream, whole_line); ++number) {
    std::string_view line = whole_line;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::size_t space = std::min(line.find(' '), line.size());
    const auto rank = parse_number<std::uint64_t>(line.substr(std::min(space + 1, line.size())));
    if (!rank) {
      throw DataError("{}: line {}: expected a token in base64, a space and its rank",
                      path.string(), number);
    }
    ranks.add(fmt::format("line {}", number), line.substr(0, space), *rank);
  }
  return std::move(ranks).take();
}

std::vector<std::string> read_megatron_ranks(const std::filesystem::path& path, std::int64_t most) {
  const std::string file = path.string();
  Json list;
  try {
    list = Json::parse(read_file(path));
  } catch (const Json::exception& error) {
    throw DataError("{}: not valid JSON: {}", file, error.what());
  }
  if (!list.is_array()) {
    throw DataError("{}: expected a JSON list of {{rank, token_bytes, token_str}}", file);
  }
  RankList ranks(file, list.size());
  std::uint64_t index = 0;
  for (const Json& entry : list) {
    if (static_cast<std::int64_t>(index) == most) break;
    const std::string place = fmt::format("entry {}", index);
    const auto rank = entry.is_object() ? entry.find("rank") : entry.end();
    const auto bytes = entry.is_object() ? entry.find("token_bytes") : entry.end();
    if (rank == entry.end() || bytes == entry.end() || !bytes->is_string()) {
      throw DataError("{}: {}: expected an object with a rank and token_bytes in base64", file,
                      place);
    }
    if (!rank->is_number_unsigned() || rank->get<std::uint64_t>() != index) {
      throw DataError("{}: {}: rank {}; ranks count up from 0", file, place, rank->dump());
    }
    ranks.add(place, bytes->get_ref<const std::string&>(), index++);
  }
  return std::move(ranks).take();
}

}  // namespace phalanx
