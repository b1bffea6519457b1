#pragma once
// Support for tests of tasks: files in a temporary directory, and a tokenizer of letters.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "phalanx/base/test_support.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

class TaskFiles : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name, std::ios::binary) << text;
    return path(name);
  }

  const TemporaryDirectory temporary_{"tasks"};
  const std::filesystem::path directory_ = temporary_.path();
};

// The token of a byte is its code plus 10; padding is 0, [CLS] 1, [SEP] 2 and [MASK] 3.
class LetterTokenizer final : public Tokenizer {
 public:
  static constexpr std::int32_t kFirst = 10;

  LetterTokenizer() { special_.pad = 0, special_.cls = 1, special_.sep = 2, special_.mask = 3; }
  std::string_view name() const override { return "Letters"; }
  std::int64_t vocab_size() const override { return kFirst + 256; }
  const SpecialTokens& special_tokens() const override { return special_; }
  std::string piece(std::int32_t id) const override { return decode(std::span(&id, 1)); }

 private:
  std::vector<std::int32_t> encode_text(std::string_view text,
                                        const EncodeOptions& /*options*/) const override {
    std::vector<std::int32_t> ids;
    for (const char letter : text) ids.push_back(kFirst + static_cast<unsigned char>(letter));
    return ids;
  }
  std::string decode_ids(std::span<const std::int32_t> ids,
                         const DecodeOptions& /*options*/) const override {
    std::string text;
    for (const std::int32_t id : ids) text += static_cast<char>(id - kFirst);
    return text;
  }

  SpecialTokens special_;
};

}  // namespace phalanx
