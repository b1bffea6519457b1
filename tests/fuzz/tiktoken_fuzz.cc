// Any bytes as a file of ranks, in tiktoken's form and in Megatron's: they are refused with a
// reason, or make a tokenizer that gives every text back.
//
// An input is the file, a line "===" and the text.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "any_tokenizer.h"
#include "memory_file.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using phalanx::check_any_tokenizer;
  static const phalanx::MemoryFile ranks;
  const auto [file, text] = phalanx::file_and_text({reinterpret_cast<const char*>(data), size});
  ranks.write(file);
  if (file.starts_with("[")) {
    check_any_tokenizer({.tokenizer = {.tokenizer_type = "TikTokenizer",
                                       .tokenizer_model = ranks.path(),
                                       .vocab_size = 300,
                                       .tiktoken_pattern = "v2",
                                       .tiktoken_num_special_tokens = 20},
                         .is_lossless = true},
                        text);
    return 0;
  }
  for (const char* pattern : {"llama3", "cl100k"}) {
    check_any_tokenizer({.tokenizer = {.tokenizer_type = "tiktoken",
                                       .tokenizer_model = ranks.path(),
                                       .tiktoken_pattern = pattern,
                                       .tiktoken_special_tokens = {"<|end|>"}},
                         .is_lossless = true},
                        text);
  }
  return 0;
}
