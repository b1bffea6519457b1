// Any bytes as the two files of an indexed dataset: they are refused with a file's name, or every
// sequence and every sample of them can be read.
//
// An input is the size of the .bin in two bytes, the .bin, the .idx.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "memory_file.h"
#include "phalanx/base/error.h"
#include "phalanx/corpus/dataset_info.h"
#include "phalanx/data/gpt_dataset.h"
#include "phalanx/data/indexed_dataset.h"
#include "require.h"

namespace phalanx {
namespace {

constexpr std::int64_t kVocabularySize = 100;
constexpr std::int64_t kSequenceLength = 4;

struct Files {
  MemoryFile bin;
  MemoryFile idx;
  NameDirectory directory;
  Files() {
    directory.add("data.bin", bin);
    directory.add("data.idx", idx);
  }
};

void check_error(const Error& error) {
  const bool is_refusal =
      error.code() == ErrorCode::kBadData || error.code() == ErrorCode::kConfiguration;
  require(is_refusal, "{}", error.what());
  require(*error.what() != '\0', "an error without a message");
}

// The bytes of each sequence, found without the reader: .idx says where they are in .bin.
void check_sequences(const IndexedDataset& data, std::string_view bin, std::string_view idx) {
  std::int64_t tokens = 0;
  const std::size_t offsets = kIndexHeaderBytes + 4 * static_cast<std::size_t>(data.sequences());
  for (std::int64_t i = 0; i < data.sequences(); ++i) {
    const std::int64_t length = data.length(i);
    require(length >= 0, "sequence {} has {} tokens", i, length);
    tokens += length;
    std::uint64_t offset = 0;
    std::memcpy(&offset, &idx[offsets + 8 * static_cast<std::size_t>(i)], sizeof(offset));
    const auto size = static_cast<std::size_t>(length * size_of(data.type()));
    require(offset <= bin.size() && size <= bin.size() - offset, "sequence {} is outside", i);
    const auto raw = data.raw(i, 0, length);
    require(raw.size() == size, "sequence {} is cut", i);
    require(size == 0 || std::memcmp(raw.data(), &bin[offset], size) == 0, "sequence {} is another",
            i);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(length));
    data.get(i, 0, ids);
  }
  require(tokens == data.tokens(), "{} tokens of {}", tokens, data.tokens());
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < data.documents(); ++i) {
    require(data.document_begin(i) == end, "documents with a gap");
    end = data.document_begin(i + 1);
    require(end >= data.document_begin(i), "a document of fewer than no sequences");
  }
  require(data.documents() < 1 || end == data.sequences(), "sequences of no document");
}

void check_samples(const std::shared_ptr<const IndexedDataset>& data, DataOrder order) {
  const GptDataset samples(data, {0, data->sequences()}, kVocabularySize,
                           {.sequence_length = kSequenceLength, .order = order});
  std::vector<std::int32_t> ids(kSequenceLength + 1);
  for (std::int64_t i = 0; i < samples.size(); ++i) {
    require(samples.sample(i, ids) == kSequenceLength + 1, "sample {} is short", i);
    for (const std::int32_t id : ids) {
      require(id >= 0 && id < kVocabularySize, "sample {} has the id {}", i, id);
    }
  }
}

void check(std::string_view input) {
  static const Files files;
  if (input.size() < 2) return;
  const auto byte = [&](std::size_t i) {
    return std::size_t{static_cast<unsigned char>(input[i])};
  };
  const std::size_t size = std::min(byte(0) + 256 * byte(1), input.size() - 2);
  const std::string_view bin = input.substr(2, size);
  const std::string_view idx = input.substr(2 + size);
  files.bin.write(bin);
  files.idx.write(idx);
  try {
    const auto data = std::make_shared<const IndexedDataset>(files.directory / "data");
    check_sequences(*data, bin, idx);
    dataset_info(*data);
    token_id_range(*data);
    for (const DataOrder order : {DataOrder::kMegatron, DataOrder::kSequential}) {
      try {
        check_samples(data, order);
      } catch (const Error& error) {
        check_error(error);
      }
    }
    check_token_ids(*data, kVocabularySize);
  } catch (const Error& error) {
    check_error(error);
  }
}

}  // namespace
}  // namespace phalanx

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  phalanx::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
