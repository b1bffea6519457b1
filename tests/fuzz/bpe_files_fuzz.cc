// Any bytes as vocab.json and merges.txt: they are refused with a reason, or make a tokenizer that
// gives every text back.
//
// An input is vocab.json, a line "===", merges.txt, another such line and the text.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "any_tokenizer.h"
#include "memory_file.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using phalanx::MemoryFile;
  static const MemoryFile vocab;
  static const MemoryFile merges;
  const auto [files, text] = phalanx::file_and_text({reinterpret_cast<const char*>(data), size});
  const auto parts = phalanx::file_and_text(files);
  vocab.write(parts.first);
  merges.write(parts.second);
  phalanx::check_any_tokenizer({.tokenizer = {.tokenizer_type = "GPT2BPETokenizer",
                                              .vocab_file = vocab.path(),
                                              .merge_file = merges.path()},
                                .is_lossless = true},
                               text);
  return 0;
}
