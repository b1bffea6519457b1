#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench_data.h"
#include "bench_data_text.h"
#include "phalanx/base/file.h"
#include "phalanx/tokenizer/bpe_files.h"
#include "phalanx/tokenizer/bpe_trainer.h"
#include "phalanx/tokenizer/registry.h"
#include "timing.h"

namespace phalanx::bench {
namespace {

constexpr std::int64_t kMegabyte = 1'000'000;

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void encode_rate(const DataOptions& options, const Tokenizer& tokenizer, std::string_view text) {
  const auto documents = documents_of(text, options.document_bytes);
  std::size_t ids = 0;
  const auto encode = [&] {
    ids = 0;
    for (const std::string_view document : documents) ids += tokenizer.encode(document).size();
  };
  std::vector<char> copy(text.size());
  const auto copy_text = [&] { std::memcpy(copy.data(), text.data(), text.size()); };
  const auto timings = time_by_turns({.seconds = options.seconds, .cpu_time = true},
                                     {{.run = encode}, {.run = copy_text}});
  const double megabytes = static_cast<double>(text.size()) / kMegabyte;
  fmt::print(
      "encode {:<24} {:>8.1f} MB/s of one thread (best {:.1f}), {:.2f} bytes an id; memcpy {:.0f} "
      "MB/s\n",
      tokenizer.name(), megabytes / timings[0].median, megabytes / timings[0].best,
      static_cast<double>(text.size()) / static_cast<double>(std::max<std::size_t>(ids, 1)),
      megabytes / timings[1].median);
  std::fflush(stdout);
}

}  // namespace

void measure_encoding(const DataOptions& options, std::unique_ptr<Tokenizer> tokenizer) {
  const std::string text =
      options.input.empty() ? generated_text(8 * kMegabyte) : read_file(options.input);
  if (tokenizer != nullptr) {
    encode_rate(options, *tokenizer, text);
    return;
  }
  const TokenizerOptions learned{.vocab_file = options.directory / "vocab.json",
                                 .merge_file = options.directory / "merges.txt"};
  BpeTrainer trainer({.vocab_size = 8192});
  trainer.add_text(std::string_view(text).substr(0, 4 * kMegabyte));
  write_bpe_files(trainer.train(), learned.vocab_file, learned.merge_file);
  encode_rate(options, *make_tokenizer(learned), text);
}

void measure_bpe_training(const DataOptions& options) {
  const std::string text = options.input.empty() ? generated_text(options.training_mb * kMegabyte)
                                                 : read_file(options.input);
  std::size_t ids = 0;
  const auto train = [&] {
    BpeTrainer trainer({.vocab_size = 32768});
    trainer.add_text(text);
    ids = trainer.train().tokens.size();
  };
  const double seconds = seconds_of(train);
  const double megabytes = static_cast<double>(text.size()) / kMegabyte;
  fmt::print("learn {} ids of {:.0f} MB: {:.1f} s, {:.1f} MB/s\n", ids, megabytes, seconds,
             megabytes / seconds);
  std::fflush(stdout);
}

}  // namespace phalanx::bench
