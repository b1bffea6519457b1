#include "phalanx/tokenizer/hf/models.h"

#include <fmt/format.h>

namespace phalanx {

void Model::append_ids_of_words(const WordSplitter& splitter, std::string_view text,
                                std::vector<std::int32_t>& ids) const {
  WordCursor words(splitter, text);
  append_ids([&words] { return words.next(); }, ids);
}

std::unique_ptr<const Model> make_model(const JsonNode& node, bool& takes_bytes) {
  const auto type = node.find("type");
  // The oldest files do not say; only BPE has merges.
  const std::string name = type || !node.has("merges") ? node["type"].text() : "BPE";
  if (name == "BPE") return make_bpe_model(node, takes_bytes);
  takes_bytes = false;
  if (name == "WordPiece") return make_word_piece_model(node);
  if (name == "Unigram") return make_unigram_model(node);
  type->refuse("{} is not supported; the models are BPE, WordPiece and Unigram", shown_text(name));
}

std::vector<std::int32_t> byte_token_ids(const Vocabulary& vocabulary) {
  std::vector<std::int32_t> ids;
  for (int byte = 0; byte < 256; ++byte) {
    ids.push_back(vocabulary.find(fmt::format("<0x{:02X}>", byte)).value_or(-1));
  }
  return ids;
}

}  // namespace phalanx
