#pragma once
// A tokenizer.json's decoders: tokens to text.

#include <memory>
#include <string>
#include <vector>

#include "phalanx/tokenizer/hf/tokenizer_json.h"

namespace phalanx {

// Changes a list of tokens; what is left at the end, joined, is the text.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

// ConfigError names a type or value that is not supported.
std::unique_ptr<const Decoder> make_decoder(const JsonNode& node);

}  // namespace phalanx
