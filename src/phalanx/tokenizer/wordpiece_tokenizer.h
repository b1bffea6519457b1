#pragma once
// BERT's WordPiece (Devlin et al., 2018) as Megatron-LM reads it: the words of wordpiece_words.h,
// each cut greedily into the longest tokens of vocab.txt (greedy_pieces.h). What the file lacks of
// [BOS], [EOS] and the sentinels <extra_id_0>, ... stands behind its tokens; a document ends with
// [EOS], or with [SEP] where there is none. Decoding joins tokens with blanks, those that begin
// with ## without, and takes the blanks before punctuation and English contractions away, as
// Hugging Face's tokenizers do.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/greedy_pieces.h"
#include "phalanx/tokenizer/registry.h"
#include "phalanx/tokenizer/special_finder.h"
#include "phalanx/tokenizer/wordpiece_words.h"

namespace phalanx {

enum class WordPieceCase { kLower, kKept };

// The tokens of a vocab.txt: one a line, without the white space around it; the line decides the
// id. DataError names the line that is no UTF-8, InputMissingError a file that is not there.
std::vector<std::string> read_wordpiece_file(const std::string& path);

// What stands behind the tokens of the file, where it lacks it.
struct WordPieceAppended {
  std::int64_t extra_ids = 0;  // sentinels
  bool bos_and_eos = true;
};

class WordPieceTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kLowerCaseName = "BertWordPieceLowerCase";
  static constexpr std::string_view kCaseName = "BertWordPieceCase";

  // Throws DataError, naming `source`, unless [PAD], [UNK], [CLS], [SEP] and [MASK] are there.
  WordPieceTokenizer(WordPieceCase letter_case, std::vector<std::string> tokens,
                     const WordPieceAppended& appended, const std::string& source);

  std::string_view name() const override {
    return case_ == WordPieceCase::kLower ? kLowerCaseName : kCaseName;
  }
  std::int64_t vocab_size() const override { return std::ssize(tokens_); }
  const SpecialTokens& special_tokens() const override { return special_; }
  std::string piece(std::int32_t id) const override { return token(id); }

 private:
  std::vector<std::int32_t> encode_text(std::string_view text,
                                        const EncodeOptions& options) const override;
  std::string decode_ids(std::span<const std::int32_t> ids,
                         const DecodeOptions& options) const override;
  const std::string& token(std::int32_t id) const;

  WordPieceCase case_;
  std::vector<std::string> tokens_;
  SpecialTokens special_;
  SpecialFinder finder_;
  std::vector<bool> is_special_;  // by id
  WordPieceWords words_;
  GreedyPieces pieces_;
};

// From vocab.txt.
std::unique_ptr<Tokenizer> make_wordpiece_lower_case_tokenizer(const TokenizerOptions& options);
std::unique_ptr<Tokenizer> make_wordpiece_case_tokenizer(const TokenizerOptions& options);

}  // namespace phalanx
