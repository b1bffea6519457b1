#include "phalanx/corpus/dataset_info.h"

#include <algorithm>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::int64_t kPieceTokens = 1 << 16;

// Calls visit(sequence, offset, ids) for all tokens, a bounded piece at a time.
template <typename Visit>
void for_each_piece(const IndexedDataset& data, Visit visit) {
  std::vector<std::int64_t> ids;
  for (std::int64_t sequence = 0; sequence < data.sequences(); ++sequence) {
    const std::int64_t length = data.length(sequence);
    for (std::int64_t offset = 0; offset < length; offset += kPieceTokens) {
      ids.resize(static_cast<std::size_t>(std::min(kPieceTokens, length - offset)));
      data.get(sequence, offset, ids);
      visit(sequence, offset, ids);
    }
  }
}

}  // namespace

DatasetInfo dataset_info(const IndexedDataset& data) {
  DatasetInfo info{.sequences = data.sequences(),
                   .documents = data.documents(),
                   .tokens = data.tokens(),
                   .type = data.type(),
                   .bin_bytes = data.bin_bytes(),
                   .idx_bytes = data.idx_bytes()};
  for (std::int64_t d = 0; d < data.documents(); ++d) {
    const std::int64_t sequences = data.document_begin(d + 1) - data.document_begin(d);
    if (sequences == 0) ++info.empty_documents;
    info.most_sequences = std::max(info.most_sequences, sequences);
    info.fewest_sequences = d == 0 ? sequences : std::min(info.fewest_sequences, sequences);
  }
  for (std::int64_t i = 0; i < data.sequences(); ++i) {
    const std::int64_t length = data.length(i);
    info.longest_sequence = std::max(info.longest_sequence, length);
    info.shortest_sequence = i == 0 ? length : std::min(info.shortest_sequence, length);
  }
  return info;
}

void check_layout(const IndexedDataset& data) {
  std::int64_t end = 0;  // of the sequence before
  for (std::int64_t i = 0; i < data.sequences(); ++i) {
    if (data.byte_offset(i) != end) {
      throw DataError(
          "{}: sequence {} begins at byte {} of {}, but what is before it ends at byte {}",
          idx_path(data.prefix()), i, data.byte_offset(i), bin_path(data.prefix()), end);
    }
    end += data.length(i) * size_of(data.type());
  }
  if (end != data.bin_bytes()) {
    throw DataError("{}: the last sequence ends at byte {}, the file at byte {}",
                    bin_path(data.prefix()), end, data.bin_bytes());
  }
}

TokenIdRange token_id_range(const IndexedDataset& data) {
  TokenIdRange range;
  bool first = true;
  for_each_piece(data, [&](std::int64_t, std::int64_t, const std::vector<std::int64_t>& ids) {
    const auto [low, high] = std::minmax_element(ids.begin(), ids.end());
    range.smallest = first ? *low : std::min(range.smallest, *low);
    range.largest = first ? *high : std::max(range.largest, *high);
    first = false;
  });
  return range;
}

void check_token_ids(const IndexedDataset& data, std::int64_t vocabulary_size) {
  for_each_piece(
      data, [&](std::int64_t sequence, std::int64_t offset, const std::vector<std::int64_t>& ids) {
        const auto bad = std::find_if(ids.begin(), ids.end(), [&](std::int64_t id) {
          return id < 0 || id >= vocabulary_size;
        });
        if (bad == ids.end()) return;
        throw DataError("{}: token {} of sequence {} is {}, outside the vocabulary of {} ids",
                        bin_path(data.prefix()), offset + (bad - ids.begin()), sequence, *bad,
                        vocabulary_size);
      });
}

}  // namespace phalanx
