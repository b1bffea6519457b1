#pragma once
// For tests of this room: a private directory, and small vocabularies on disk.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/tokenizer/bpe_files.h"
#include "phalanx/tokenizer/byte_symbols.h"

namespace phalanx::tokenizer_test {

class VocabularyDirectory : public TemporaryDirectory {
 public:
  VocabularyDirectory() : TemporaryDirectory("tokenizer") {}

  std::filesystem::path file(std::string_view name) const { return path() / name; }
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    std::ofstream(file(name), std::ios::binary) << text;  // not durable: tests write a lot
    return file(name);
  }
};

// 256 byte symbols, the results of the merges (pairs of byte strings) in order, then the end of
// text.
inline BpeTables make_tables(const std::vector<std::pair<std::string, std::string>>& merges) {
  BpeTables tables;
  for (int id = 0; id < kByteSymbols; ++id) {
    tables.tokens.emplace_back(1, static_cast<char>(byte_of_symbol(id)));
  }
  for (const auto& [left, right] : merges) tables.tokens.push_back(left + right);
  const auto id_of = [&tables](const std::string& token) {
    const auto found = std::find(tables.tokens.begin(), tables.tokens.end(), token);
    return static_cast<std::int32_t>(found - tables.tokens.begin());
  };
  for (const auto& [left, right] : merges) {
    tables.merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
  tables.end_of_text = static_cast<std::int32_t>(tables.tokens.size());
  tables.tokens.emplace_back(kEndOfText);
  return tables;
}

}  // namespace phalanx::tokenizer_test
