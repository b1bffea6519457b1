#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "bench_data.h"
#include "bench_data_text.h"
#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/corpus/preprocess.h"
#include "phalanx/data/gpt_dataset.h"
#include "phalanx/data/index_cache.h"
#include "phalanx/data/indexed_dataset.h"
#include "phalanx/data/split.h"
#include "phalanx/metrics/process_memory.h"

namespace phalanx::bench {
namespace {

namespace fs = std::filesystem;
constexpr double kMegabyte = 1e6;

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// In a process of its own, so that its memory is its own.
void in_a_process(const std::function<void()>& body) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child < 0) throw SystemError("cannot start a process");
  if (child == 0) {
    int status = 0;
    try {
      body();
    } catch (const Error& error) {
      fmt::print(stderr, "bench_data: {}\n", error.what());
      status = error.exit_status();
    }
    std::fflush(stdout);
    std::_Exit(status);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0) {
    throw Error(ErrorCode::kTemporary, "a measured process failed");
  }
}

template <typename T>
void write_values(std::ofstream& file, const std::vector<T>& values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
}

// Documents of some 1,000 tokens whose ids are all 0: .bin is a hole, .idx is as it would be.
void write_sparse_dataset(const std::string& prefix, std::int64_t documents) {
  const auto count = static_cast<std::size_t>(documents);
  std::vector<std::int32_t> lengths(count);
  std::vector<std::int64_t> offsets(count), boundaries(count + 1);
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < count; ++i) {
    lengths[i] = static_cast<std::int32_t>(500 + (i * 2654435761U) % 1001);
    offsets[i] = 2 * tokens;
    tokens += lengths[i];
  }
  std::iota(boundaries.begin(), boundaries.end(), 0);
  std::ofstream index(idx_path(prefix), std::ios::binary);
  index << kIndexMagic;
  const std::uint64_t numbers[] = {kIndexVersion, static_cast<std::uint64_t>(documents),
                                   static_cast<std::uint64_t>(documents) + 1};
  index.write(reinterpret_cast<const char*>(&numbers[0]), 8);
  index.put(static_cast<char>(TokenType::kU16));
  index.write(reinterpret_cast<const char*>(&numbers[1]), 16);
  write_values(index, lengths);
  write_values(index, offsets);
  write_values(index, boundaries);
  std::ofstream(bin_path(prefix)).close();
  fs::resize_file(bin_path(prefix), static_cast<std::uintmax_t>(2 * tokens));
  fmt::print("{} documents, {:.1f} billion tokens, .idx of {:.0f} MB\n", documents,
             static_cast<double>(tokens) * 1e-9,
             static_cast<double>(fs::file_size(idx_path(prefix))) / kMegabyte);
}

// One pass over the bytes: what no start can be faster than.
void read_index_file(const std::string& prefix) {
  std::ifstream file(idx_path(prefix), std::ios::binary);
  std::vector<char> buffer(1 << 20);
  std::uint64_t sum = 0;
  const double seconds = seconds_of([&] {
    while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
           file.gcount() > 0) {
      for (std::int64_t i = 0; i + 8 <= file.gcount(); i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, &buffer[static_cast<std::size_t>(i)], sizeof(word));
        sum += word;
      }
    }
  });
  fmt::print("start: one pass over .idx {:>18.2f} s  (sum {:x})\n", seconds, sum & 0xff);
}

void start(const std::string& name, const std::string& prefix, const IndexCache* cache = nullptr) {
  const std::int64_t before = peak_resident_bytes();
  std::shared_ptr<const IndexedDataset> data;
  const double opening = seconds_of([&] { data = std::make_shared<const IndexedDataset>(prefix); });
  std::vector<std::int32_t> ids(2049);
  const double building = seconds_of([&] {
    const Split split("969,30,1");
    const auto make = [&](SplitKind kind, std::int64_t samples) {
      return GptDataset(data, split.range(kind, data->sequences()), 50000,
                        {.sequence_length = 2048, .samples = samples}, cache);
    };
    const GptDataset train = make(SplitKind::kTrain, data->tokens() / 2048 / 2);
    make(SplitKind::kValid, 1000);
    make(SplitKind::kTest, 100);
    train.sample(0, ids);
  });
  fmt::print("start: {:<22} {:>8.2f} s to open, {:>8.2f} s to the first sample, {} resident\n",
             name, opening, building, format_bytes(peak_resident_bytes() - before));
}

}  // namespace

void measure_preprocessing(const DataOptions& options) {
  const std::string text = generated_text(20 * std::int64_t{1'000'000});
  const fs::path lines = options.directory / "lines.jsonl";
  {
    std::ofstream file(lines, std::ios::binary);
    for (const std::string_view document : documents_of(text, 2000)) {
      file << nlohmann::json{{"text", document}}.dump() << '\n';
    }
  }
  const double megabytes = static_cast<double>(fs::file_size(lines)) / kMegabyte;
  // Ids that cost nothing: what is left is reading, parsing and writing.
  const auto encode = [](std::string_view document) {
    return std::vector<std::int32_t>(document.size() / 4, 1);
  };
  const double copying = seconds_of([&] {
    fs::copy_file(lines, options.directory / "copy", fs::copy_options::overwrite_existing);
  });
  for (std::int64_t workers = 1; workers <= options.workers; ++workers) {
    PreprocessOptions preprocessing;
    preprocessing.inputs = {lines};
    preprocessing.output_prefix = options.directory / "preprocessed";
    preprocessing.vocabulary_size = 50257;
    preprocessing.workers = static_cast<int>(workers);
    PreprocessResult result;
    const double seconds = seconds_of([&] { result = preprocess(preprocessing, encode); });
    fmt::print(
        "preprocess without encoding, {} worker{} {:>8.1f} MB/s, {:>8.0f} documents/s; copying the "
        "file {:.0f} MB/s\n",
        workers, workers == 1 ? ": " : "s:", megabytes / seconds,
        static_cast<double>(result.documents) / seconds, megabytes / copying);
    std::fflush(stdout);
  }
}

void measure_data_startup(const DataOptions& options) {
  const std::string prefix = options.directory / "sparse";
  write_sparse_dataset(prefix, options.documents);
  in_a_process([&] { read_index_file(prefix); });
  in_a_process([&] { start("without a cache", prefix); });
  const IndexCache cache(options.directory / "cache");
  for (const char* name : {"cold cache", "warm cache"}) {
    in_a_process([&] { start(name, prefix, &cache); });
  }
}

}  // namespace phalanx::bench
