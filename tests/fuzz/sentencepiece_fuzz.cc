// Any bytes as a model of SentencePiece: they are refused with a reason, or make tokenizers that
// read any text.
//
// An input is the model, a line "===" and the text.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "any_tokenizer.h"
#include "memory_file.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using phalanx::check_any_tokenizer;
  static const phalanx::MemoryFile model;
  const auto [file, text] = phalanx::file_and_text({reinterpret_cast<const char*>(data), size});
  model.write(file);
  check_any_tokenizer({.tokenizer = {.tokenizer_type = "SentencePieceTokenizer",
                                     .tokenizer_model = model.path(),
                                     .vocab_extra_ids = 2}},
                      text);
  check_any_tokenizer(
      {.tokenizer = {.tokenizer_type = "Llama2Tokenizer", .tokenizer_model = model.path()}}, text);
  return 0;
}
