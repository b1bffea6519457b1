#include "phalanx/tokenizer/hf/vocabulary.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace phalanx {

std::int64_t largest_id(std::size_t tokens) {
  // A limit for the table by id: it allows the holes of real vocabularies, but no huge ids in a
  // short file.
  constexpr std::int64_t kHoles = 1 << 20;
  return std::min<std::int64_t>(std::int64_t{4} * static_cast<std::int64_t>(tokens) + kHoles,
                                std::numeric_limits<std::int32_t>::max() - 1);
}

Vocabulary Vocabulary::of_object(const JsonNode& object) {
  Vocabulary vocabulary;
  const auto members = object.members();
  vocabulary.ids_.reserve(members.size());
  for (const auto& [token, id] : members) {
    vocabulary.add(token, static_cast<std::int32_t>(id.integer(0, largest_id(members.size()))), id);
  }
  return vocabulary;
}

void Vocabulary::add(std::string token, std::int32_t id, const JsonNode& place) {
  const auto slot = static_cast<std::size_t>(id);
  if (slot >= tokens_.size()) tokens_.resize(slot + 1);
  if (!tokens_[slot].empty() && tokens_[slot] != token) {
    place.reject("{} has id {}, which is that of {}", shown_text(token), id,
                 shown_text(tokens_[slot]));
  }
  const auto [entry, is_new] = ids_.try_emplace(token, id);
  if (!is_new && entry->second != id) {
    place.reject("{} has id {}, but also {}", shown_text(token), id, entry->second);
  }
  tokens_[slot] = std::move(token);
}

void Vocabulary::append(std::string token) {
  ids_.insert_or_assign(token, static_cast<std::int32_t>(tokens_.size()));
  tokens_.push_back(std::move(token));
}

std::optional<std::int32_t> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace phalanx
