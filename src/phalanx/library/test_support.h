#pragma once
// What tests of the interface share: answers as values, requests, a tiny model.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "phalanx/base/test_support.h"
#include "phalanx/data/indexed_dataset_writer.h"
#include "phalanx/library/phalanx.h"
#include "tests/paths.h"

namespace phalanx {

using Json = nlohmann::ordered_json;

// An answer, which is freed.
struct Answer {
  int code = 0;
  std::string text;
  std::string error;

  // Implicit: every call of the interface is one.
  Answer(phalanx_answer* answer)  // NOLINT(google-explicit-constructor)
      : code(phalanx_answer_code(answer)),
        text(phalanx_answer_text(answer)),
        error(phalanx_answer_error(answer)) {
    phalanx_answer_free(answer);
  }
  // Of a call that must not fail.
  Json json() const {
    EXPECT_EQ(code, 0) << error;
    return Json::parse(text, nullptr, /*allow_exceptions=*/false);
  }
};

inline std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What the program prints; it must not fail.
inline std::string output_of_program(const std::string& words, const std::filesystem::path& scratch,
                                     const std::string& input = "") {
  std::ofstream(scratch / "stdin", std::ios::binary) << input;
  const int status = std::system(fmt::format("cd '{0}' && '{1}' {2} <stdin >stdout 2>stderr",
                                             scratch.string(), program_path(), words)
                                     .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 0) << words << "\n" << contents_of(scratch / "stderr");
  return contents_of(scratch / "stdout");
}

inline Json tiny_shape() {
  return {{"num-layers", 2},
          {"hidden-size", 32},
          {"num_attention_heads", 2},
          {"seq-length", 16},
          {"max-position-embeddings", 16},
          {"micro-batch-size", 2},
          {"global-batch-size", 4},
          {"tokenizer-type", "NullTokenizer"},
          {"vocab-size", 63},
          {"threads-per-rank", 1}};
}

// A dataset of 60 documents; the order of the mock data's many documents takes most of a tiny run.
inline std::string write_tiny_data(const std::filesystem::path& directory) {
  const std::string prefix = (directory / "tiny").string();
  IndexedDatasetWriter writer(prefix, TokenType::kU16);
  for (std::int32_t document = 0; document < 60; ++document) {
    std::vector<std::int32_t> ids(20);
    for (std::int32_t i = 0; i < 20; ++i) ids[static_cast<std::size_t>(i)] = document * i % 60;
    writer.add_sequence(ids);
    writer.end_document();
  }
  writer.commit();
  return prefix;
}

// A run of 6 iterations of the tiny model on that data.
inline Json tiny_flags(const std::string& data) {
  Json flags = tiny_shape();
  flags.update({{"data-path", data},
                {"split", "80,10,10"},
                {"lr", 1e-2},
                {"train-iters", 6},
                {"lr-decay-iters", 6},
                {"eval-interval", 3},
                {"eval-iters", 1},
                {"log-interval", 3}});
  return flags;
}

// As the command line has them.
inline std::string words_of_flags(const Json& flags) {
  std::string words;
  for (const auto& [name, value] : flags.items()) {
    words += " --" + name;
    if (!value.is_boolean())
      words += " " + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return words;
}

inline std::string request_of(const Json& flags) {
  return Json({{"model", "gpt"}, {"flags", flags}}).dump();
}

}  // namespace phalanx
