#include "phalanx/rendezvous/place_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestName = 4096;
constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;
constexpr std::size_t kMostDigits = 9;

// Successive ranks: `each` on every one of `hosts` hosts from `first` on.
struct RankRun {
  int first, hosts, each;
};

std::vector<RankRun> runs_of(const std::vector<RankPlace>& places) {
  std::vector<RankRun> runs;
  for (std::size_t rank = 0; rank < places.size();) {
    const int host = places[rank].host;
    int each = 0;
    while (rank < places.size() && places[rank].host == host) ++each, ++rank;
    const bool goes_on =
        !runs.empty() && runs.back().each == each && runs.back().first + runs.back().hosts == host;
    if (goes_on) {
      ++runs.back().hosts;
    } else {
      runs.push_back({host, 1, each});
    }
  }
  return runs;
}

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

// Names in a row that are numbered without a gap: [prefix, digits, first, count].
json names_json(const std::vector<std::string>& names) {
  json list = json::array();
  for (std::size_t at = 0; at < names.size();) {
    const NumberedName first = numbered(names[at]);
    std::size_t end = at + 1;
    while (first.digits > 0 && end < names.size() &&
           names[end] == name_of(first.prefix, first.digits,
                                 first.number + static_cast<std::int64_t>(end - at))) {
      ++end;
    }
    if (end - at > 1) {
      list.push_back({first.prefix, first.digits, first.number, end - at});
    } else {
      list.push_back(names[at]);
    }
    at = end;
  }
  return list;
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

std::vector<std::string> read_names(const json& list) {
  std::vector<std::string> names;
  for (const json& entry : list) {
    if (entry.is_string()) {
      names.push_back(place_text(entry));
      continue;
    }
    if (!entry.is_array() || entry.size() != 4) refuse_places();
    const std::string prefix = place_text(entry[0]);
    const auto digits = static_cast<std::size_t>(place_integer(entry[1], 1, kMostDigits));
    const std::int64_t first = place_integer(entry[2], 0, std::numeric_limits<std::int32_t>::max());
    const std::int64_t count = place_integer(entry[3], 1, kMostRanks - std::ssize(names));
    for (std::int64_t at = 0; at < count; ++at)
      names.push_back(name_of(prefix, digits, first + at));
  }
  return names;
}

}  // namespace

std::string places_text(const std::vector<RankPlace>& places) {
  json runs = json::array();
  for (const RankRun& run : runs_of(places)) runs.push_back({run.first, run.hosts, run.each});
  std::vector<std::string> names;
  for (const RankPlace& place : places) {
    if (place.host == std::ssize(names)) names.push_back(place.host_name.substr(0, kLongestName));
  }
  return json{{"runs", std::move(runs)}, {"names", names_json(names)}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

std::vector<RankPlace> read_places(const std::string& list) {
  const json object = json::parse(list, nullptr, false);
  if (!object.is_object() || !object.contains("runs") || !object.contains("names")) refuse_places();
  const json& runs = object["runs"];
  if (!runs.is_array() || runs.empty() || !object["names"].is_array()) refuse_places();
  const std::vector<std::string> names = read_names(object["names"]);
  const std::int64_t hosts = std::ssize(names);
  std::vector<int> sizes(names.size(), 0);
  std::vector<RankPlace> places;
  for (const json& run : runs) {
    if (!run.is_array() || run.size() != 3) refuse_places();
    const std::int64_t first = place_integer(run[0], 0, hosts - 1);
    const std::int64_t count = place_integer(run[1], 1, hosts - first);
    const std::int64_t each = place_integer(run[2], 1, kMostRanks);
    if (count * each > kMostRanks - std::ssize(places)) refuse_places();
    for (std::int64_t at = 0; at < count * each; ++at) {
      const auto host = static_cast<std::size_t>(first + at / each);
      places.push_back({static_cast<int>(places.size()), 0, static_cast<int>(host), sizes[host]++,
                        1, names[host]});
    }
  }
  for (RankPlace& place : places) {
    place.world_size = static_cast<int>(places.size());
    place.local_size = sizes[static_cast<std::size_t>(place.host)];
  }
  return places;
}

}  // namespace phalanx::rendezvous
