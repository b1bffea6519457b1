// Any bytes as a file of the index cache: a header that is not the requested one is refused, and an
// index that is anything else than it should be is refused where it is used; no sample is read from
// outside of the data.
//
// An input that begins with an even byte is a whole file; behind an odd one come the arrays, under
// a header and digests that are right.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memory_file.h"
#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/data/gpt_dataset.h"
#include "phalanx/data/index_cache.h"
#include "phalanx/data/indexed_dataset.h"
#include "require.h"

namespace phalanx {
namespace {

constexpr std::int64_t kVocabularySize = 50;
constexpr std::int64_t kSequenceLength = 4;
// Of the header, as index_cache.cc has it.
constexpr std::size_t kBlockDigestAt = 24, kDigestAt = 32, kHeaderBytes = 40;

template <typename T>
void append(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A data set of seven documents, and the file that the cache makes of its order.
class CachedData {
 public:
  CachedData() {
    const std::vector<std::int32_t> lengths = {5, 1, 9, 0, 3, 7, 2};
    std::string index(kIndexMagic);
    append(index, kIndexVersion);
    append(index, TokenType::kU8);
    append(index, std::uint64_t{lengths.size()});
    append(index, std::uint64_t{lengths.size() + 1});
    for (const std::int32_t length : lengths) append(index, length);
    std::string tokens;
    for (const std::int32_t length : lengths) {
      append(index, std::int64_t{std::ssize(tokens)});
      for (std::int32_t i = 0; i < length; ++i) {
        tokens += static_cast<char>(std::ssize(tokens) % kVocabularySize);
      }
    }
    for (std::size_t i = 0; i <= lengths.size(); ++i) append(index, static_cast<std::int64_t>(i));
    bin_.write(tokens);
    idx_.write(index);
    directory_.add("data.bin", bin_);
    directory_.add("data.idx", idx_);
    data_ = std::make_shared<const IndexedDataset>(directory_ / "data");
    std::filesystem::create_directory(directory_ / "cache");
    samples();
    const auto path = std::filesystem::directory_iterator(directory_ / "cache")->path();
    std::ifstream file(path, std::ios::binary);
    contents_.assign(std::istreambuf_iterator<char>(file), {});
    std::filesystem::remove(path);
    std::filesystem::create_symlink(file_.path(), path);
    std::uint32_t description = 0;
    std::memcpy(&description, &contents_[12], sizeof(description));
    block_ = (kHeaderBytes + description + 63) / 64 * 64;
    require(block_ < contents_.size(), "the cache's file has another form");
  }

  // The file with other arrays, as if they had been written so.
  void write_arrays(std::string_view arrays) const {
    std::string file = contents_;
    std::copy_n(arrays.data(), std::min(arrays.size(), file.size() - block_), &file[block_]);
    const auto put = [&](std::size_t at, std::uint64_t value) {
      std::memcpy(&file[at], &value, sizeof(value));
    };
    put(kBlockDigestAt, xxh3(bytes_of(file).subspan(block_)));
    Xxh3 digest;
    digest.update(bytes_of(file).first(kDigestAt));
    digest.update(bytes_of(file).subspan(kHeaderBytes, block_ - kHeaderBytes));
    put(kDigestAt, digest.digest());
    file_.write(file);
  }

  GptDataset samples() const {
    return {data_,
            {0, data_->sequences()},
            kVocabularySize,
            {.sequence_length = kSequenceLength, .samples = 9},
            &cache_};
  }

 private:
  MemoryFile bin_, idx_, file_;
  NameDirectory directory_;
  IndexCache cache_{directory_ / "cache"};
  std::shared_ptr<const IndexedDataset> data_;
  std::string contents_;
  std::size_t block_ = 0;
};

void check_header(std::string_view file) {
  const IndexRequest request{.name = "gpt", .description = "any", .bytes = 8};
  try {
    const auto block = IndexCache::parse(bytes_of(file), request, "cache");
    require(std::ssize(block) == request.bytes, "a block of {} bytes", block.size());
  } catch (const DataError& error) {
    require(std::string_view(error.what()).starts_with("cache"), "no name: {}", error.what());
  }
}

void check_arrays(std::string_view arrays) {
  static const CachedData cached;
  cached.write_arrays(arrays);
  const GptDataset samples = cached.samples();
  require(!samples.index().file.empty(), "the file is not used");
  std::vector<std::int32_t> ids(kSequenceLength + 1);
  for (std::int64_t i = 0; i < samples.size(); ++i) {
    try {
      samples.sample(i, ids);
    } catch (const DataError& error) {
      require(std::string_view(error.what()).find("cache") != std::string_view::npos, "no name: {}",
              error.what());
    }
  }
}

}  // namespace
}  // namespace phalanx

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    phalanx::check_header(input);
  } else {
    phalanx::check_arrays(input);
  }
  return 0;
}
