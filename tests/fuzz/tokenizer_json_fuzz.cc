// Any bytes as a tokenizer.json: they are refused with a reason, or make a tokenizer that reads any
// text.
//
// An input is the file, a line "===" and the text.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "any_tokenizer.h"
#include "memory_file.h"

namespace phalanx {
namespace {

// A directory as Hugging Face's are.
struct Files {
  MemoryFile tokenizer;
  MemoryFile config;
  NameDirectory directory;
  Files() {
    config.write(R"({"eos_token": "</s>"})");
    directory.add("tokenizer.json", tokenizer);
    directory.add("tokenizer_config.json", config);
  }
};

}  // namespace
}  // namespace phalanx

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const phalanx::Files files;
  const auto [file, text] = phalanx::file_and_text({reinterpret_cast<const char*>(data), size});
  files.tokenizer.write(file);
  phalanx::check_any_tokenizer({.tokenizer = {.tokenizer_type = "HuggingFaceTokenizer",
                                              .tokenizer_model = files.directory / ""}},
                               text);
  return 0;
}
