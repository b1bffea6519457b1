#pragma once
// The two files of GPT-2's byte-level BPE, and what they say.
//
// vocab.json is one JSON object, token -> id; merges.txt has one merge "left right" a line, best
// first, after a line
// "#version: 0.2". Both write bytes as the symbols of byte_symbols.h.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/bpe_merges.h"

namespace phalanx {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

struct BpeTables {
  std::vector<std::string> tokens;  // the bytes of each id; kEndOfText literally
  std::vector<BpeMerge> merges;     // by rank: lower is merged first
  std::int32_t end_of_text = 0;     // the id of kEndOfText
};

// Checked: ids are unique and dense from 0, tokens are unique, all 256 byte symbols and kEndOfText
// are there, both parts and the result of every merge are tokens, no merge comes twice or makes
// kEndOfText. DataError names the file and the key or line.
BpeTables read_bpe_files(const std::filesystem::path& vocab_file,
                         const std::filesystem::path& merge_file);

// Durable (base/file.h), the vocabulary first.
void write_bpe_files(const BpeTables& tables, const std::filesystem::path& vocab_file,
                     const std::filesystem::path& merge_file);

}  // namespace phalanx
