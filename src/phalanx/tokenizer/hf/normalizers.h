#pragma once
// A tokenizer.json's normalizers: text to text, before it is cut.

#include <memory>
#include <string>

#include "phalanx/tokenizer/hf/tokenizer_json.h"

namespace phalanx {

// Well-formed UTF-8. What asks whether a piece stands at the start of the input (Metaspace with
// "first") means the input before normalisation: text whose first character was taken away does
// not.
struct NormalizedText {
  std::string text;
  bool at_start = false;
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedText& text) const = 0;
};

// ConfigError names a type or value that is not supported.
std::unique_ptr<const Normalizer> make_normalizer(const JsonNode& node);

}  // namespace phalanx
