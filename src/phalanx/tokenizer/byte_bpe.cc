#include "phalanx/tokenizer/byte_bpe.h"

#include <span>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {

ByteBpe::ByteBpe(const std::array<std::int32_t, 256>& byte_ids, BpeMerges merges,
                 WholeWords whole_words)
    : byte_ids_(byte_ids), merges_(std::move(merges)), whole_words_(std::move(whole_words)) {}

void ByteBpe::Encoder::append_new(std::string_view word, std::vector<std::int32_t>& ids) {
  if (!bpe_.whole_words_.empty()) {
    const auto whole = bpe_.whole_words_.find(std::string(word));
    if (whole != bpe_.whole_words_.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  const std::size_t begin = ids.size();
  for (const char c : word) ids.push_back(bpe_.byte_ids_[static_cast<std::uint8_t>(c)]);
  const std::span<std::int32_t> parts(ids.data() + begin, word.size());
  ids.resize(begin + bpe_.merges_.apply(parts, workspace_));
}

void ByteBpe::Encoder::append_ids(std::string_view word, std::size_t readable,
                                  std::vector<std::int32_t>& ids) {
  if (word.empty() || word.size() > WordCache::kLongestWord) return append_new(word, ids);
  const WordCache::Key key = WordCache::key_of(word, readable);
  if (const auto known = cache_.find(key); !known.empty()) {
    for (const auto id : known) ids.push_back(id);
    return;
  }
  const std::size_t begin = ids.size();
  append_new(word, ids);
  const std::span<const std::int32_t> found(ids.data() + begin, ids.size() - begin);
  if (found.size() <= WordCache::kMostIds) cache_.insert(key, found);
}

std::unique_ptr<ByteBpe::Encoder> ByteBpe::Encoders::take(const ByteBpe& bpe) {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto encoder = std::move(idle_.back());
      idle_.pop_back();
      return encoder;
    }
  }
  return std::make_unique<Encoder>(bpe);
}

void ByteBpe::Encoders::give_back(std::unique_ptr<Encoder> encoder) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(encoder));
}

void ByteBpe::append_ids(const WordSplitter& splitter, std::string_view text,
                         std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  auto encoder = encoders_.take(*this);
  WordCursor words(splitter, text);
  const char* const end = text.data() + text.size();
  for (auto word = words.next(); !word.empty(); word = words.next()) {
    encoder->append_ids(word, static_cast<std::size_t>(end - word.data()), ids);
  }
  encoders_.give_back(std::move(encoder));
}

void ByteBpe::append_ids(const std::function<std::string_view()>& next,
                         std::vector<std::int32_t>& ids) const {
  auto encoder = encoders_.take(*this);
  for (auto word = next(); !word.empty(); word = next()) {
    encoder->append_ids(word, word.size(), ids);
  }
  encoders_.give_back(std::move(encoder));
}

}  // namespace phalanx
