#pragma once
// The flags that name a tokenizer, for the commands beside pretrain.

#include <memory>

#include "phalanx/flags/flag_set.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

class TokenizerFlags {
 public:
  void add_to(FlagSet& flags);
  // GPT2BPETokenizer unless a type is named.
  std::unique_ptr<Tokenizer> make() const;

 private:
  std::string type_ = "GPT2BPETokenizer";
  std::string vocab_file_, merge_file_;
  std::int64_t vocab_size_ = 0;
};

}  // namespace phalanx
