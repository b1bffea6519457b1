#pragma once
// The flags that name a tokenizer, for commands other than pretrain: rows of the training flags.

#include <memory>

#include "phalanx/flags/flag_set.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

class TokenizerFlags {
 public:
  void add_to(FlagSet& flags);
  // Whether the call has any of them except --vocab-size.
  static bool names_tokenizer(const FlagSet& flags);
  // The tokenizer; GPT2BPETokenizer unless a type is named.
  std::unique_ptr<Tokenizer> make() const { return make_tokenizer(config_.tokenizer); }
  const TokenizerOptions& options() const { return config_.tokenizer; }

 private:
  TrainConfig config_;
};

}  // namespace phalanx
