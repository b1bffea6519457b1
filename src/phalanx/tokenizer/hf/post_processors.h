#pragma once
// A tokenizer.json's post_processor: the tokens that it puts around a text's ids.

#include <cstdint>
#include <vector>

#include "phalanx/tokenizer/hf/tokenizer_json.h"

namespace phalanx {

class PostProcessors {
 public:
  PostProcessors() = default;
  // ConfigError names a type that is not supported, DataError an id from vocab_size on.
  PostProcessors(const JsonNode& node, std::int64_t vocab_size);

  std::vector<std::int32_t> apply(std::vector<std::int32_t> ids) const;

 private:
  static constexpr std::int32_t kText = -1;  // stands for the ids
  using Template = std::vector<std::int32_t>;

  void add(const JsonNode& node, std::int64_t vocab_size);
  void add_template(const JsonNode& node, std::int64_t vocab_size);

  std::vector<Template> templates_;  // one after the other
};

}  // namespace phalanx
