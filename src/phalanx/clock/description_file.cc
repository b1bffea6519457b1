#include "phalanx/clock/description_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

double number(const YamlEntry& entry, std::size_t at, const Bounds& bounds) {
  const std::string& word = entry.words.at(at);
  double value = 0.0;
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (fault != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) {
    throw DataError(
        "{}: {} is '{}', which is no number: write it in bytes, seconds or FLOP/s, "
        "such as 3.35e12",
        entry.place, entry.key, word);
  }
  if (value < bounds.least || value > bounds.most) {
    throw DataError("{}: {} is {}: it must be from {:g} to {:g}", entry.place, entry.key, word,
                    bounds.least, bounds.most);
  }
  if (bounds.is_whole && value != std::floor(value)) {
    throw DataError("{}: {} is {}: it must be a whole number", entry.place, entry.key, word);
  }
  return value;
}

Origin origin(const YamlEntry& entry, std::size_t at) {
  const auto found = origin_from_name(entry.words.at(at));
  if (!found) {
    throw DataError(
        "{}: {} is from '{}': it must be data-sheet, measured, fitted, default or given",
        entry.place, entry.key, entry.words.at(at));
  }
  return *found;
}

Quantity quantity_of(const YamlEntry& entry, const Bounds& bounds) {
  const std::size_t words = entry.words.size();
  if (words != 1 && words != 3 && words != 5) {
    throw DataError(
        "{}: {} has {} words: write the number alone, or [NUMBER, ORIGIN, \"SOURCE\"], or "
        "[NUMBER, ORIGIN, \"SOURCE\", LOW, HIGH]",
        entry.place, entry.key, words);
  }
  const double value = number(entry, 0, bounds);
  Quantity quantity{.value = value};
  if (words == 1) return quantity;
  quantity.origin = origin(entry, 1);
  quantity.source = entry.words[2];
  if (words == 5) {
    quantity.low = number(entry, 3, bounds);
    quantity.high = number(entry, 4, bounds);
    if (quantity.low > value || quantity.high < value) {
      throw DataError("{}: {} is {}, which is not between {} and {}", entry.place, entry.key,
                      entry.words[0], entry.words[3], entry.words[4]);
    }
  } else if (quantity.origin == Origin::kDefault) {
    throw DataError(
        "{}: {} is a default without its range: write [NUMBER, default, \"SOURCE\", LOW, "
        "HIGH]",
        entry.place, entry.key);
  }
  return quantity;
}

// The shortest text that is read as the same number.
std::string text_of(double value) { return fmt::format("{}", value); }

}  // namespace

DescriptionReader::DescriptionReader(const YamlContents& contents, std::string_view file)
    : contents_(contents), file_(file) {}

const YamlEntry* DescriptionReader::take(std::string_view key) {
  keys_.emplace_back(key);
  const auto found = std::ranges::find(contents_.entries, key, &YamlEntry::key);
  return found == contents_.entries.end() ? nullptr : &*found;
}

const YamlEntry& DescriptionReader::required(std::string_view key, const YamlEntry* entry) const {
  if (entry == nullptr) throw DataError("{}: {} is missing", file_, key);
  return *entry;
}

void DescriptionReader::text(std::string_view key, std::string& text) {
  const YamlEntry& entry = required(key, take(key));
  if (entry.is_list || entry.words.front().empty()) {
    throw DataError("{}: {} must be a text", entry.place, key);
  }
  text = entry.words.front();
}

void DescriptionReader::quantity(std::string_view key, Quantity& quantity, const Bounds& bounds) {
  const YamlEntry* const entry = take(key);
  if (entry == nullptr && !quantity.source.empty()) return;
  quantity = quantity_of(required(key, entry), bounds);
}

void DescriptionReader::optional_quantity(std::string_view key, std::optional<Quantity>& quantity,
                                          const Bounds& bounds) {
  const YamlEntry* const entry = take(key);
  if (entry != nullptr) quantity = quantity_of(*entry, bounds);
}

void DescriptionReader::quantities(std::string_view prefix,
                                   std::map<std::string, Quantity>& quantities,
                                   const Bounds& bounds) {
  for (const YamlEntry& entry : contents_.entries) {
    if (!entry.key.starts_with(prefix)) continue;
    keys_.push_back(entry.key);
    quantities[entry.key.substr(prefix.size())] = quantity_of(entry, bounds);
  }
}

void DescriptionReader::optional_pair(std::string_view key, std::optional<Quantity>& first,
                                      const Bounds& first_bounds, std::optional<Quantity>& second,
                                      const Bounds& second_bounds) {
  const YamlEntry* const entry = take(key);
  if (entry == nullptr) return;
  if (entry->words.size() != 4) {
    throw DataError("{}: {} has {} words: write [NUMBER, NUMBER, ORIGIN, \"SOURCE\"]", entry->place,
                    key, entry->words.size());
  }
  const auto made = [&](std::size_t at, const Bounds& bounds) {
    const double value = number(*entry, at, bounds);
    return Quantity{.value = value, .origin = origin(*entry, 2), .source = entry->words[3]};
  };
  first = made(0, first_bounds);
  second = made(1, second_bounds);
}

void DescriptionReader::finish() const {
  for (const YamlEntry& entry : contents_.entries) {
    if (std::ranges::find(keys_, entry.key) != keys_.end()) continue;
    const auto near = nearest(entry.key, keys_);
    throw DataError("{}: {} is no key of a description{}", entry.place, entry.key,
                    near ? fmt::format(": is {} meant?", *near) : "");
  }
}

DescriptionWriter::DescriptionWriter(std::string heading) { section_.heading = std::move(heading); }

void DescriptionWriter::text(std::string_view key, const std::string& text) {
  section_.values.push_back({.key = std::string(key), .words = {text}, .is_text = true});
}

void DescriptionWriter::quantity(std::string_view key, const Quantity& quantity,
                                 const Bounds& /*bounds*/) {
  YamlValue value{.key = std::string(key), .words = {text_of(quantity.value)}};
  if (quantity.origin != Origin::kGiven || !quantity.source.empty() || quantity.is_range()) {
    value.is_list = true;
    value.words.emplace_back(name_of(quantity.origin));
    value.words.push_back(quantity.source);
  }
  if (quantity.is_range()) {
    value.words.push_back(text_of(quantity.low));
    value.words.push_back(text_of(quantity.high));
  }
  section_.values.push_back(std::move(value));
}

void DescriptionWriter::optional_quantity(std::string_view key,
                                          const std::optional<Quantity>& quantity,
                                          const Bounds& bounds) {
  if (quantity) this->quantity(key, *quantity, bounds);
}

void DescriptionWriter::quantities(std::string_view prefix,
                                   const std::map<std::string, Quantity>& quantities,
                                   const Bounds& bounds) {
  for (const auto& [name, quantity] : quantities) {
    this->quantity(std::string(prefix) + name, quantity, bounds);
  }
}

void DescriptionWriter::optional_pair(std::string_view key, const std::optional<Quantity>& first,
                                      const Bounds& /*first_bounds*/,
                                      const std::optional<Quantity>& second,
                                      const Bounds& /*second_bounds*/) {
  if (!first || !second) return;
  section_.values.push_back({.key = std::string(key),
                             .words = {text_of(first->value), text_of(second->value),
                                       std::string(name_of(first->origin)), first->source},
                             .is_list = true});
}

std::string DescriptionWriter::yaml() const { return yaml_text({section_}); }

bool has_heading(const YamlContents& contents, std::string_view heading) {
  return std::ranges::find(contents.headings, heading, &YamlEntry::key) != contents.headings.end();
}

}  // namespace phalanx
