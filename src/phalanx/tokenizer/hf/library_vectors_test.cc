// Every stage of a tokenizer.json against vectors of Hugging Face's tokenizers 0.23.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "phalanx/base/file.h"
#include "phalanx/tokenizer/hf/hf_tokenizer.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(HuggingFaceTokenizer, AgreesWithTheLibrary) {
  const auto cases =
      nlohmann::json::parse(read_file(source_path("tests/golden/hf_tokenizers.json")));
  ASSERT_EQ(cases.size(), 11U);
  for (const auto& one : cases) {
    const std::string name = one["name"];
    const HuggingFaceTokenizer tokenizer(one["tokenizer"].dump(), name);
    for (const auto& row : one["texts"]) {
      const std::string text = row[0];
      SCOPED_TRACE(name + ": " + row[0].dump());
      const Ids parsed = row[2];
      const Ids added = row[3];
      EXPECT_EQ(tokenizer.encode(text), row[1].get<Ids>());
      EXPECT_EQ(tokenizer.encode(text, {.parse_special = true}), parsed);
      EXPECT_EQ(tokenizer.encode(text, {.parse_special = true, .add_special = true}), added);
      EXPECT_EQ(tokenizer.decode(parsed), row[4].get<std::string>());
      EXPECT_EQ(tokenizer.decode(added, {.skip_special = true}), row[5].get<std::string>());
    }
  }
}

}  // namespace
}  // namespace phalanx
