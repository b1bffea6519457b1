#include "phalanx/tokenizer/bpe_files.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/tokenizer/byte_symbols.h"
#include "phalanx/tokenizer/pair_map.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

// A string of the file as ASCII JSON, short enough for a message.
std::string shown(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  const std::string json = Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
  return json.size() <= kLongest ? json : json.substr(0, kLongest) + "...";
}

// Reads {"token": id, ...} event by event, because a parsed object would lose duplicate keys.
class VocabReader final : public nlohmann::json_sax<Json> {
 public:
  explicit VocabReader(std::string file) : file_(std::move(file)) {}

  // (key, id) in the order of the file.
  const std::vector<std::pair<std::string, std::int64_t>>& entries() const { return entries_; }

  bool start_object(std::size_t) override {
    if (inside_) reject("an object");
    inside_ = true;
    return true;
  }
  bool key(std::string& text) override {
    key_ = text;
    return true;
  }
  bool number_unsigned(std::uint64_t id) override {
    if (!inside_) reject("a number");
    constexpr auto kLimit = std::uint64_t{std::numeric_limits<std::int32_t>::max()};
    if (id >= kLimit) {
      throw DataError("{}: key {}: id {} is too large; ids count up from 0 without gaps", file_,
                      shown(key_), id);
    }
    entries_.emplace_back(key_, static_cast<std::int64_t>(id));
    return true;
  }
  bool end_object() override { return true; }
  bool null() override { reject("null"); }
  bool boolean(bool) override { reject("a boolean"); }
  bool number_integer(std::int64_t) override { reject("a negative number"); }
  bool number_float(double, const std::string&) override { reject("a number that is no integer"); }
  bool string(std::string&) override { reject("a string"); }
  bool binary(Json::binary_t&) override { reject("binary data"); }
  bool start_array(std::size_t) override { reject("an array"); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    throw DataError("{}: not valid JSON: {}", file_, error.what());
  }

 private:
  [[noreturn]] void reject(const char* found) const {
    if (!inside_)
      throw DataError("{}: expected one JSON object {{token: id}}, not {}", file_, found);
    throw DataError("{}: key {}: expected an id (an integer from 0), not {}", file_, shown(key_),
                    found);
  }

  std::string file_;
  bool inside_ = false;
  std::string key_;
  std::vector<std::pair<std::string, std::int64_t>> entries_;
};

struct Vocab {
  std::vector<std::string> keys;                      // by id, as symbols
  std::unordered_map<std::string, std::int32_t> ids;  // by key
};

Vocab read_vocab(const std::filesystem::path& path) {
  const std::string file = path.string();
  VocabReader reader(file);
  Json::sax_parse(read_file(path), &reader);

  Vocab vocab;
  const auto count = static_cast<std::int64_t>(reader.entries().size());
  vocab.keys.resize(reader.entries().size());
  for (const auto& [key, id] : reader.entries()) {
    if (key.empty()) throw DataError("{}: the key of id {} is empty", file, id);
    if (!vocab.ids.emplace(key, static_cast<std::int32_t>(id)).second) {
      throw DataError("{}: key {} comes twice", file, shown(key));
    }
    if (id >= count) {
      throw DataError("{}: key {} has id {}, but {} keys must have the ids 0 to {}", file,
                      shown(key), id, count, count - 1);
    }
    std::string& slot = vocab.keys[static_cast<std::size_t>(id)];
    if (!slot.empty()) {
      throw DataError("{}: keys {} and {} have the same id {}", file, shown(slot), shown(key), id);
    }
    slot = key;
  }
  return vocab;
}

// Splits off the first line, without its end ("\n" or "\r\n").
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

BpeMerge parse_merge(std::string_view line, const std::string& place, const Vocab& vocab) {
  const std::size_t space = line.find(' ');
  const bool two = space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                   line.find(' ', space + 1) == std::string_view::npos;
  if (!two) {
    throw DataError("{}: expected two tokens with one space between them, not {}", place,
                    shown(std::string(line)));
  }
  const auto id_of = [&](const std::string& key, const char* role) {
    const auto found = vocab.ids.find(key);
    if (found == vocab.ids.end()) {
      throw DataError("{}: the {} {} is not in the vocabulary file", place, role, shown(key));
    }
    return found->second;
  };
  const std::string left(line.substr(0, space));
  const std::string right(line.substr(space + 1));
  if (left + right == kEndOfText) {
    throw DataError("{}: a merge may not make {}, which is never text", place, kEndOfText);
  }
  return {id_of(left, "left part"), id_of(right, "right part"), id_of(left + right, "result")};
}

std::vector<BpeMerge> read_merges(const std::filesystem::path& path, const Vocab& vocab) {
  const std::string text = read_file(path);
  std::string_view rest = text;
  rest.remove_suffix(rest.size() - (rest.find_last_not_of("\r\n") + 1));
  std::vector<BpeMerge> merges;
  PairMap seen;
  int line_number = 0;
  if (rest.starts_with("#version")) {
    take_line(rest);
    ++line_number;
  }
  while (!rest.empty()) {
    const std::string place = fmt::format("{}: line {}", path.string(), ++line_number);
    const BpeMerge merge = parse_merge(take_line(rest), place, vocab);
    const auto rank = static_cast<std::uint32_t>(merges.size());
    const auto first = seen.find_or_insert(PairMap::key(merge.left, merge.right), rank);
    if (first != rank) {
      throw DataError("{}: the merge of line {} again; each may come once", place,
                      line_number - static_cast<int>(rank - first));
    }
    merges.push_back(merge);
  }
  return merges;
}

}  // namespace

BpeTables read_bpe_files(const std::filesystem::path& vocab_file,
                         const std::filesystem::path& merge_file) {
  const std::string file = vocab_file.string();
  const Vocab vocab = read_vocab(vocab_file);
  for (int index = 0; index < kByteSymbols; ++index) {
    const std::uint8_t byte = byte_of_symbol(index);
    const std::string symbol = symbols_from_bytes({reinterpret_cast<const char*>(&byte), 1});
    if (!vocab.ids.contains(symbol)) {
      throw DataError("{}: the symbol {} of byte 0x{:02x} is missing; all 256 must be there", file,
                      shown(symbol), byte);
    }
  }
  const auto end_of_text = vocab.ids.find(std::string(kEndOfText));
  if (end_of_text == vocab.ids.end()) {
    throw DataError("{}: {} is missing; it ends a document", file, kEndOfText);
  }

  BpeTables tables;
  tables.end_of_text = end_of_text->second;
  tables.tokens.reserve(vocab.keys.size());
  for (const auto& key : vocab.keys) {
    auto bytes = bytes_from_symbols(key);
    if (!bytes) {
      throw DataError("{}: key {} has a character that stands for no byte", file, shown(key));
    }
    tables.tokens.push_back(*std::move(bytes));
  }
  tables.merges = read_merges(merge_file, vocab);
  return tables;
}

void write_bpe_files(const BpeTables& tables, const std::filesystem::path& vocab_file,
                     const std::filesystem::path& merge_file) {
  std::vector<std::string> symbols;
  symbols.reserve(tables.tokens.size());
  for (const auto& token : tables.tokens) symbols.push_back(symbols_from_bytes(token));

  std::string vocab = "{";
  for (std::size_t id = 0; id < symbols.size(); ++id) {
    vocab +=
        fmt::format("{}{}: {}", id == 0 ? "" : ", ", Json(symbols[id]).dump(-1, ' ', true), id);
  }
  vocab += "}";
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : tables.merges) {
    merges += symbols[static_cast<std::size_t>(merge.left)] + " " +
              symbols[static_cast<std::size_t>(merge.right)] + "\n";
  }
  write_file_durably(vocab_file, vocab);
  write_file_durably(merge_file, merges);
}

}  // namespace phalanx
