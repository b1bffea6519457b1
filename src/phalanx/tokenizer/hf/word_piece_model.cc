// The model WordPiece of tokenizer.json (greedy_pieces.h).

#include <limits>
#include <utility>

#include "phalanx/tokenizer/greedy_pieces.h"
#include "phalanx/tokenizer/hf/models.h"

namespace phalanx {
namespace {

class WordPieceModel final : public Model {
 public:
  WordPieceModel(Vocabulary vocabulary, GreedyPieces::Options options)
      : vocabulary_(std::move(vocabulary)), pieces_(vocabulary_.tokens(), std::move(options)) {}

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void append_ids(const NextPiece& next, std::vector<std::int32_t>& ids) const override {
    for (auto piece = next(); !piece.empty(); piece = next()) pieces_.append_ids(piece, ids);
  }

 private:
  Vocabulary vocabulary_;
  GreedyPieces pieces_;
};

}  // namespace

std::unique_ptr<const Model> make_word_piece_model(const JsonNode& node) {
  node.allow(
      {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  Vocabulary vocabulary = Vocabulary::of_object(node["vocab"]);
  const JsonNode unk = node["unk_token"];
  const auto id = vocabulary.find(unk.text());
  if (!id) unk.reject("{} is not in the vocabulary", shown_text(unk.text()));
  const auto limit = node.find("max_input_chars_per_word");
  constexpr std::int64_t kDefaultLimit = 100;
  GreedyPieces::Options options{
      .continuing_prefix = node.text_or("continuing_subword_prefix", "##"),
      .most_characters = static_cast<std::size_t>(
          limit ? limit->integer(0, std::numeric_limits<std::int32_t>::max()) : kDefaultLimit),
      .unknown = *id};
  return std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(options));
}

}  // namespace phalanx
