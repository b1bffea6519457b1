#include "phalanx/cli/tokenizer_flags.h"

namespace phalanx {

void TokenizerFlags::add_to(FlagSet& flags) {
  flags.add({.name = "--tokenizer-type",
             .help = "What makes ids of text",
             .choices = "GPT2BPETokenizer NullTokenizer"},
            &type_);
  flags.add({.name = "--vocab-file", .help = "vocab.json", .value_name = "FILE"}, &vocab_file_);
  flags.add({.name = "--merge-file", .help = "merges.txt", .value_name = "FILE"}, &merge_file_);
  flags.add({.name = "--vocab-size",
             .help = "Ids of a NullTokenizer, end-of-document not counted",
             .range = from_to(0, INT32_MAX - 1)},
            &vocab_size_);
}

std::unique_ptr<Tokenizer> TokenizerFlags::make() const {
  return make_tokenizer({.type = type_,
                         .vocab_file = vocab_file_,
                         .merge_file = merge_file_,
                         .vocab_size = vocab_size_});
}

}  // namespace phalanx
