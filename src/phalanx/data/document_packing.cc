#include "phalanx/data/document_packing.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kDocumentsBetweenPolls = 1 << 20;
constexpr std::int64_t kMaxCapacity = 1 << 24;

// A set of numbers below `size` that finds the least one from a number on. A bit of the upper level
// tells whether a word of the lower one has any.
class NumberSet {
 public:
  explicit NumberSet(std::int64_t size)
      : words_(static_cast<std::size_t>(size / kBits + 1)), marks_(words_.size() / kBits + 1) {}

  void insert(std::int64_t number) {
    const auto word = static_cast<std::size_t>(number / kBits);
    words_[word] |= bit(number);
    marks_[word / kBits] |= bit(static_cast<std::int64_t>(word));
  }
  void erase(std::int64_t number) {
    const auto word = static_cast<std::size_t>(number / kBits);
    words_[word] &= ~bit(number);
    if (words_[word] == 0) marks_[word / kBits] &= ~bit(static_cast<std::int64_t>(word));
  }
  // -1: there is none.
  std::int64_t least_from(std::int64_t number) const {
    const std::int64_t here = first_from(words_, number, number / kBits + 1);
    if (here >= 0) return here;
    const std::int64_t word = first_from(marks_, number / kBits + 1, std::ssize(marks_));
    return word < 0 ? -1 : first_from(words_, word * kBits, word + 1);
  }

 private:
  static constexpr std::int64_t kBits = 64;
  static std::uint64_t bit(std::int64_t number) { return std::uint64_t{1} << (number % kBits); }

  // The first bit from `begin` on that is set, in words below `end`.
  static std::int64_t first_from(const std::vector<std::uint64_t>& words, std::int64_t begin,
                                 std::int64_t end) {
    std::uint64_t mask = ~std::uint64_t{0} << (begin % kBits);
    for (std::int64_t word = begin / kBits; word < end; ++word) {
      const std::uint64_t found = words[static_cast<std::size_t>(word)] & mask;
      if (found != 0) return word * kBits + std::countr_zero(found);
      mask = ~std::uint64_t{0};
    }
    return -1;
  }

  std::vector<std::uint64_t> words_, marks_;
};

// Packs by the space that is left in them; packs of equal space form a queue.
class PackSpaces {
 public:
  struct Place {
    std::uint32_t pack = kNone;
    std::int64_t space = 0;
  };

  explicit PackSpaces(std::int64_t capacity)
      : first_(static_cast<std::size_t>(capacity) + 1, kNone),
        last_(first_.size(), kNone),
        spaces_(capacity + 1) {}

  // Packs are numbered in the order in which they come for the first time.
  void add(Place place) {
    const auto space = static_cast<std::size_t>(place.space);
    if (place.pack >= next_.size()) next_.resize(std::size_t{place.pack} + 1, kNone);
    next_[place.pack] = kNone;
    if (first_[space] == kNone) {
      first_[space] = place.pack;
      spaces_.insert(place.space);
    } else {
      next_[last_[space]] = place.pack;
    }
    last_[space] = place.pack;
  }
  // Takes out, of the packs with the least sufficient space, the one that was added first.
  std::optional<Place> take(std::int64_t length) {
    const std::int64_t space = spaces_.least_from(length);
    if (space < 0) return std::nullopt;
    const auto at = static_cast<std::size_t>(space);
    const std::uint32_t pack = first_[at];
    first_[at] = next_[pack];
    if (first_[at] == kNone) spaces_.erase(space);
    return Place{.pack = pack, .space = space};
  }

 private:
  std::vector<std::uint32_t> first_, last_;  // by space
  std::vector<std::uint32_t> next_;          // by pack: the one behind it in its queue
  NumberSet spaces_;                         // that some pack has
};

class Packer {
 public:
  Packer(const SequenceLengths& lengths, std::int64_t capacity, std::int64_t multiple,
         const std::function<void()>& poll)
      : lengths_(lengths), capacity_(capacity), multiple_(multiple), poll_(poll) {}

  void greedy() {
    list_in_file_order();
    std::int64_t space = 0;
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      const std::int64_t room = room_of(documents_[i]);
      if (room > space) {
        ++packs_;
        space = capacity_;
      }
      space -= room;
      pack_of_[i] = packs_ - 1;
      poll_at(i);
    }
  }

  void single() {
    list_in_file_order();
    packs_ = static_cast<std::uint32_t>(documents_.size());
    std::iota(pack_of_.begin(), pack_of_.end(), 0U);
  }

  void best_fit() {
    list_longest_first();
    PackSpaces open(capacity_);
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      const std::int64_t room = room_of(documents_[i]);
      auto place = open.take(room);
      if (!place) place = {.pack = packs_++, .space = capacity_};
      pack_of_[i] = place->pack;
      place->space -= room;
      if (place->space > 0) open.add(*place);
      poll_at(i);
    }
  }

  // Documents by pack, without packs that train nothing.
  DocumentPacks result() const {
    std::vector<bool> has_labels(packs_);
    std::vector<std::int64_t> places(packs_);  // how many documents, then where the next one goes
    DocumentPacks packs;
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      ++places[pack_of_[i]];
      if (lengths_[documents_[i]] > 1) has_labels[pack_of_[i]] = true;
      count(documents_[i], packs.counts);
      poll_at(i);
    }
    packs.begins.push_back(0);
    for (std::size_t pack = 0; pack < packs_; ++pack) {
      const std::int64_t begin = packs.begins.back();
      const std::int64_t documents = std::exchange(places[pack], begin);
      if (has_labels[pack]) {
        packs.begins.push_back(begin + documents);
      } else {
        ++packs.counts.dropped_packs;
        packs.counts.tokens -= documents;
      }
    }
    packs.documents.resize(static_cast<std::size_t>(packs.begins.back()));
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      const std::uint32_t pack = pack_of_[i];
      if (!has_labels[pack]) continue;
      packs.documents[static_cast<std::size_t>(places[pack]++)] = documents_[i];
      poll_at(i);
    }
    packs.counts.packs = std::ssize(packs.begins) - 1;
    packs.counts.documents = packs.begins.back();
    packs.counts.empty_documents = lengths_.size() - std::ssize(documents_);
    return packs;
  }

 private:
  std::int64_t placed_length(std::int64_t document) const {
    return std::min<std::int64_t>(lengths_[document], capacity_);
  }
  // What a document takes of a pack.
  std::int64_t room_of(std::int64_t document) const {
    return round_up(placed_length(document), multiple_);
  }
  void count(std::int64_t document, PackingCounts& counts) const {
    const std::int64_t cut = lengths_[document] - placed_length(document);
    counts.tokens += placed_length(document);
    counts.cut_tokens += cut;
    if (cut > 0) ++counts.cut_documents;
  }
  void poll_at(std::size_t i) const {
    if (poll_ && i % kDocumentsBetweenPolls == 0) poll_();
  }

  void list_in_file_order() {
    for (std::int64_t document = 0; document < lengths_.size(); ++document) {
      if (lengths_[document] > 0) documents_.push_back(static_cast<std::uint32_t>(document));
    }
    pack_of_.resize(documents_.size());
  }
  // Sorted by counting.
  void list_longest_first() {
    std::vector<std::int64_t> places(static_cast<std::size_t>(capacity_) + 1);
    const auto place_of = [&](std::int64_t document) -> std::int64_t& {
      return places[static_cast<std::size_t>(room_of(document))];
    };
    for (std::int64_t document = 0; document < lengths_.size(); ++document) ++place_of(document);
    std::int64_t longer = 0;
    for (std::int64_t length = capacity_; length > 0; --length) {
      std::int64_t& place = places[static_cast<std::size_t>(length)];
      longer += std::exchange(place, longer);
    }
    documents_.resize(static_cast<std::size_t>(longer));
    for (std::int64_t document = 0; document < lengths_.size(); ++document) {
      if (lengths_[document] == 0) continue;
      documents_[static_cast<std::size_t>(place_of(document)++)] =
          static_cast<std::uint32_t>(document);
    }
    pack_of_.resize(documents_.size());
  }

  const SequenceLengths& lengths_;
  std::int64_t capacity_, multiple_;
  const std::function<void()>& poll_;
  std::vector<std::uint32_t> documents_;  // in the order in which they are placed
  std::vector<std::uint32_t> pack_of_;    // of each of them
  std::uint32_t packs_ = 0;
};

}  // namespace

DocumentPacks pack_documents(const SequenceLengths& lengths, std::int64_t capacity,
                             DocumentPacking packing, const std::function<void()>& poll,
                             std::int64_t multiple) {
  if (capacity < 1 || capacity > kMaxCapacity) {
    throw ConfigError("--seq-length {}: documents are packed into samples of 1 to {} tokens",
                      capacity, format_count(kMaxCapacity));
  }
  if (lengths.size() >= kNone) {
    throw ConfigError("{} documents: fewer than 2^32 - 1 of a dataset can be packed",
                      format_count(lengths.size()));
  }
  PHALANX_CHECK(multiple > 0 && capacity % multiple == 0, "multiples of {} in packs of {}",
                multiple, capacity);
  Packer packer(lengths, capacity, multiple, poll);
  switch (packing) {
    case DocumentPacking::kWrapped:
      PHALANX_CHECK(false, "text that is not packed");
      break;
    case DocumentPacking::kGreedy:
      packer.greedy();
      break;
    case DocumentPacking::kBestFit:
      packer.best_fit();
      break;
    case DocumentPacking::kSingle:
      packer.single();
      break;
  }
  return packer.result();
}

}  // namespace phalanx
