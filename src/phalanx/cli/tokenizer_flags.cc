#include "phalanx/cli/tokenizer_flags.h"

namespace phalanx {

void TokenizerFlags::add_to(Flags& flags) {
  flags.add("--tokenizer-type", type_, "GPT2BPETokenizer or NullTokenizer");
  flags.add("--vocab-file", vocab_file_, "vocab.json");
  flags.add("--merge-file", merge_file_, "merges.txt");
  flags.add("--vocab-size", vocab_size_, "Ids of a NullTokenizer, end-of-document not counted");
}

std::unique_ptr<Tokenizer> TokenizerFlags::make() const {
  return make_tokenizer({.type = type_,
                         .vocab_file = vocab_file_,
                         .merge_file = merge_file_,
                         .vocab_size = vocab_size_});
}

}  // namespace phalanx
