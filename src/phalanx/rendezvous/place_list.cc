#include "phalanx/rendezvous/place_list.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestName = 4096;
constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;
constexpr std::size_t kMostDigits = 9;

// "n0042" is a prefix and a number of 4 digits.
struct NumberedName {
  std::string prefix{};
  std::size_t digits = 0;  // 0: the name does not end with a number
  std::int64_t number = 0;
};

NumberedName numbered(const std::string& name) {
  std::size_t begin = name.size();
  while (begin > 0 && name.size() - begin < kMostDigits && name[begin - 1] >= '0' &&
         name[begin - 1] <= '9') {
    --begin;
  }
  NumberedName read{name.substr(0, begin), name.size() - begin, 0};
  std::from_chars(name.data() + begin, name.data() + name.size(), read.number);
  return read;
}

std::string name_of(const std::string& prefix, std::size_t digits, std::int64_t number) {
  return fmt::format("{}{:0{}d}", prefix, number, digits);
}

[[noreturn]] void refuse_places() {
  throw UnavailableError("a list of places that cannot be read");
}

std::int64_t place_integer(const json& value, std::int64_t low, std::int64_t high) {
  if (!value.is_number_integer()) refuse_places();
  const auto number = value.get<std::int64_t>();
  if (number < low || number > high) refuse_places();
  return number;
}

std::string place_text(const json& value) {
  if (!value.is_string() || value.get_ref<const std::string&>().size() > 3 * kLongestName)
    refuse_places();
  return value.get<std::string>();
}

}  // namespace

PlaceList::PlaceList(const std::vector<RankPlace>& places)
    : ranks_(static_cast<int>(places.size())) {
  for (std::size_t rank = 0; rank < places.size();) {
    const int host = places[rank].host;
    if (host == hosts_) {
      ++hosts_;
      add_name(places[rank].host_name.substr(0, kLongestName));
    }
    int each = 0;
    while (rank < places.size() && places[rank].host == host) ++each, ++rank;
    const bool goes_on = !runs_.empty() && runs_.back().each == each &&
                         runs_.back().first + runs_.back().hosts == host;
    if (goes_on) {
      ++runs_.back().hosts;
    } else {
      runs_.push_back({host, 1, each});
    }
  }
}

std::string PlaceList::name_at(const Names& run, int at) {
  return run.digits == 0 ? run.prefix : name_of(run.prefix, run.digits, run.first + at);
}

void PlaceList::add_name(std::string name) {
  if (!names_.empty()) {
    Names& last = names_.back();
    if (name == name_at(last, last.count)) {
      ++last.count;
      return;
    }
    if (last.count == 1 && name == name_at(last, 0)) {
      last = {std::move(name), 0, 0, 2};
      return;
    }
  }
  NumberedName numbers = numbered(name);
  names_.push_back({std::move(numbers.prefix), numbers.digits, numbers.number, 1});
}

std::string PlaceList::text() const {
  json runs = json::array();
  for (const Ranks& run : runs_) runs.push_back({run.first, run.hosts, run.each});
  json names = json::array();
  for (const Names& run : names_) names.push_back({run.prefix, run.digits, run.first, run.count});
  return json{{"runs", std::move(runs)}, {"names", std::move(names)}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

PlaceList PlaceList::read(const std::string& text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object() || !object.contains("runs") || !object.contains("names")) refuse_places();
  const json& runs = object["runs"];
  const json& names = object["names"];
  if (!runs.is_array() || runs.empty() || !names.is_array()) refuse_places();
  PlaceList list;
  for (const json& run : names) {
    if (!run.is_array() || run.size() != 4) refuse_places();
    const auto digits = static_cast<std::size_t>(place_integer(run[1], 0, kMostDigits));
    list.names_.push_back({place_text(run[0]), digits,
                           place_integer(run[2], 0, std::numeric_limits<std::int32_t>::max()),
                           static_cast<int>(place_integer(run[3], 1, kMostRanks - list.hosts_))});
    list.hosts_ += list.names_.back().count;
  }
  for (const json& run : runs) {
    if (!run.is_array() || run.size() != 3) refuse_places();
    const std::int64_t first = place_integer(run[0], 0, list.hosts_ - 1);
    const std::int64_t count = place_integer(run[1], 1, list.hosts_ - first);
    const std::int64_t each = place_integer(run[2], 1, kMostRanks);
    if (count * each > kMostRanks - list.ranks_) refuse_places();
    list.runs_.push_back(
        {static_cast<int>(first), static_cast<int>(count), static_cast<int>(each)});
    list.ranks_ += static_cast<int>(count * each);
  }
  return list;
}

int PlaceList::host_of(int rank) const {
  PHALANX_CHECK(rank >= 0 && rank < ranks_, "rank {} of {}", rank, ranks_);
  int begin = 0;
  auto run = runs_.begin();
  for (; rank >= begin + run->hosts * run->each; ++run) begin += run->hosts * run->each;
  return run->first + (rank - begin) / run->each;
}

std::vector<RankPlace> PlaceList::places() const {
  std::vector<std::string> names;
  for (const Names& run : names_) {
    for (int at = 0; at < run.count; ++at) names.push_back(name_at(run, at));
  }
  std::vector<int> sizes(names.size(), 0);
  std::vector<RankPlace> places;
  places.reserve(static_cast<std::size_t>(ranks_));
  for (const Ranks& run : runs_) {
    for (int at = 0; at < run.hosts * run.each; ++at) {
      const auto host = static_cast<std::size_t>(run.first + at / run.each);
      places.push_back({static_cast<int>(places.size()), ranks_, static_cast<int>(host),
                        sizes[host]++, 1, names[host]});
    }
  }
  for (RankPlace& place : places) place.local_size = sizes[static_cast<std::size_t>(place.host)];
  return places;
}

}  // namespace phalanx::rendezvous
