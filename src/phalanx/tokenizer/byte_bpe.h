#pragma once
// Byte-level BPE: a pattern cuts text into words, and the bytes of each word are merged. What
// GPT-2's tokenizer, tiktoken's and the byte-level ones of a tokenizer.json have in common.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "phalanx/tokenizer/bpe_merges.h"
#include "phalanx/tokenizer/word_cache.h"
#include "phalanx/tokenizer/word_splitter.h"

namespace phalanx {

class ByteBpe {
 public:
  using WholeWords = std::unordered_map<std::string, std::int32_t>;

  // The id of each byte, the merges, and words that are one id whatever the merges make of them
  // (ignore_merges).
  ByteBpe(const std::array<std::int32_t, 256>& byte_ids, BpeMerges merges,
          WholeWords whole_words = {});

  // Encodes words, one after the other, and remembers what it met: any number of texts. One per
  // thread.
  class Encoder {
   public:
    explicit Encoder(const ByteBpe& bpe) : bpe_(bpe) {}
    // `word` lies in a text that goes on for at least `readable` bytes from its beginning.
    void append_ids(std::string_view word, std::size_t readable, std::vector<std::int32_t>& ids);

   private:
    void append_new(std::string_view word, std::vector<std::int32_t>& ids);

    const ByteBpe& bpe_;
    WordCache cache_;
    BpeMerges::Workspace workspace_;
  };

  // Appends the ids of the words of a text. Any number of threads at a time.
  void append_ids(const WordSplitter& splitter, std::string_view text,
                  std::vector<std::int32_t>& ids) const;
  // The same for the words that `next` returns, until it returns an empty one.
  void append_ids(const std::function<std::string_view()>& next,
                  std::vector<std::int32_t>& ids) const;

 private:
  // Encoders that no thread is using: what they remember outlives a call, and changes no result.
  class Encoders {
   public:
    std::unique_ptr<Encoder> take(const ByteBpe& bpe);
    void give_back(std::unique_ptr<Encoder> encoder);

   private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Encoder>> idle_;
  };

  std::array<std::int32_t, 256> byte_ids_;
  BpeMerges merges_;
  WholeWords whole_words_;
  mutable Encoders encoders_;
};

}  // namespace phalanx
