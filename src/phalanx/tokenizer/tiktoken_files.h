#pragma once
// Files of ranked tokens, which a tiktoken tokenizer is made of: OpenAI's (lines of a token in
// base64 and its rank) and Megatron-LM's (a JSON list of {rank, token_bytes, token_str}).

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace phalanx {

// The bytes of the token of each rank; empty where no token has the rank. All 256 single bytes are
// there, and no token comes twice. DataError names the file, and the line or entry.
std::vector<std::string> read_tiktoken_ranks(const std::filesystem::path& path);
// The first `most` of them; ranks have no holes.
std::vector<std::string> read_megatron_ranks(const std::filesystem::path& path, std::int64_t most);

}  // namespace phalanx
