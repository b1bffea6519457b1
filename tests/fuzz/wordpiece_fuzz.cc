// Any bytes as vocab.txt of BERT's WordPiece: they are refused with a reason, or make tokenizers
// that read any text.
//
// An input is vocab.txt, a line "===" and the text.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "any_tokenizer.h"
#include "memory_file.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const phalanx::MemoryFile vocab;
  const auto [file, text] = phalanx::file_and_text({reinterpret_cast<const char*>(data), size});
  vocab.write(file);
  for (const char* type : {"BertWordPieceLowerCase", "BertWordPieceCase"}) {
    phalanx::check_any_tokenizer(
        {.tokenizer = {.tokenizer_type = type, .vocab_file = vocab.path(), .vocab_extra_ids = 3}},
        text);
  }
  return 0;
}
