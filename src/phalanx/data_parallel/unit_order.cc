#include "phalanx/data_parallel/unit_order.h"

#include <algorithm>
#include <array>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using nn::PassKind;

std::vector<int> groups_of(const std::vector<ParamId>& parameters, const ParamGroups& groups) {
  std::vector<int> found;
  for (const ParamId id : parameters) {
    const int group = groups.of_parameter[static_cast<std::size_t>(id)];
    if (group >= 0) found.push_back(group);
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// When a unit's passes read a group's weights.
struct Need {
  int group = 0;
  int first = 0;
  int last = 0;
};

std::vector<Need> needs_of(const UnitOrder& order, bool forward_only) {
  std::vector<Need> needs;
  const auto add = [&](const std::vector<int>& groups, int first, int last) {
    for (const int group : groups) needs.push_back({group, first, last});
  };
  for (int u = 0; u < order.size(); ++u) {
    const UnitOrder::Unit& unit = order.units[static_cast<std::size_t>(u)];
    add(unit.read_forward, order.forward_moment(u), order.forward_moment(u));
    if (forward_only) continue;
    const int backward = order.backward_moment(u);
    if (unit.recomputed_until >= 0) {
      // One gather serves the recomputation and the following backward pass.
      add(unit.read_forward, order.backward_moment(unit.recomputed_until), backward);
    }
    add(unit.read_backward, backward, backward);
  }
  std::ranges::sort(needs, {}, [](const Need& n) { return std::pair(n.group, n.first); });
  return needs;
}

}  // namespace

ParamGroups unit_groups(const nn::ParamTable& table, const std::vector<UnitList>& chunks,
                        const std::function<bool(const ParamSpec&)>& stays) {
  std::vector<bool> has_role(table.specs().size(), false);
  for (const auto& role : table.roles()) has_role[static_cast<std::size_t>(role.id)] = true;
  ParamGroups groups;
  groups.of_parameter.assign(table.specs().size(), -1);
  const auto begin_group = [&](std::size_t chunk, ReductionDomain domain, bool it_stays) {
    groups.chunk.push_back(static_cast<int>(chunk));
    groups.domain.push_back(domain);
    groups.stays.push_back(it_stays);
    return groups.size() - 1;
  };
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    for (const auto& unit : chunks[c]) {
      PerDomain<std::array<int, 2>> own = {{-1, -1}, {-1, -1}};  // by whether it stays
      for (const ParamId id : unit->parameters()) {
        int& group = groups.of_parameter[static_cast<std::size_t>(id)];
        if (group >= 0 || !table.trains(id)) continue;
        const bool it_stays = stays(table[id]);
        if (has_role[static_cast<std::size_t>(id)]) {
          group = begin_group(c, table[id].domain, it_stays);
          continue;
        }
        int& own_group = own[table[id].domain][it_stays ? 1 : 0];
        if (own_group < 0) own_group = begin_group(c, table[id].domain, it_stays);
        group = own_group;
      }
    }
  }
  for (ParamId id = 0; id < table.size(); ++id) {
    PHALANX_CHECK(groups.of_parameter[static_cast<std::size_t>(id)] >= 0 || !table.trains(id),
                  "no unit uses {}", table[id].name);
  }
  return groups;
}

int UnitOrder::index_of(const nn::Unit& unit) const {
  const auto found = std::ranges::find(units, &unit, &Unit::unit);
  return found == units.end() ? -1 : static_cast<int>(found - units.begin());
}

int UnitOrder::moment_of(const nn::Unit& unit, PassKind pass) const {
  const int u = index_of(unit);
  PHALANX_CHECK(u >= 0, "{} is no unit of this chunk", unit.name());
  if (pass == PassKind::kForward) return forward_moment(u);
  if (pass != PassKind::kRecompute) return backward_moment(u);
  return backward_moment(units[static_cast<std::size_t>(u)].recomputed_until);
}

// Backward may use the memory from the start of the unit's pass to its end.
PassPoint UnitOrder::begin(int moment) const {
  if (moment < size()) return {PassKind::kForward, moment};
  return {PassKind::kBackwardInput, 2 * size() - 1 - moment};
}

PassPoint UnitOrder::end(int moment) const {
  if (moment < size()) return {PassKind::kForward, moment};
  return {PassKind::kBackwardWeight, 2 * size() - 1 - moment};
}

UnitOrder unit_order(UnitList units, const std::vector<int>& recomputed_until,
                     const ParamGroups& groups, int first_backward) {
  UnitOrder order{.units = {}, .first_backward = first_backward};
  for (std::size_t u = 0; u < units.size(); ++u) {
    const nn::Unit& unit = *units[u];
    order.units.push_back({.unit = &unit,
                           .read_forward = groups_of(unit.needs(PassKind::kForward), groups),
                           .read_backward = groups_of(unit.needs(PassKind::kBackwardInput), groups),
                           .added = groups_of(unit.parameters(), groups),
                           .recomputed_until = recomputed_until[u]});
  }
  return order;
}

std::vector<WeightHold> weight_holds(const UnitOrder& units, const std::vector<bool>& is_cut,
                                     const nn::PassOrder& order, const GatherOptions& options) {
  std::vector<WeightHold> holds;
  const auto is_forward = [&](int moment) { return moment < units.size(); };
  for (const Need& need : needs_of(units, order.forward_only)) {
    if (!is_cut[static_cast<std::size_t>(need.group)]) continue;
    const bool is_same = !holds.empty() && holds.back().group == need.group;
    const bool is_joined = order.backward_follows || !is_same ||
                           is_forward(holds.back().last) == is_forward(need.first);
    // A weight is kept if the next moment's gathers would gather it again.
    const bool is_near =
        is_same && need.first - std::max(options.prefetch, 1) <= holds.back().last && is_joined;
    if (is_near || (is_same && !options.reshard_after_forward)) {
      holds.back().last = std::max(holds.back().last, need.last);
      continue;
    }
    // Before the first pass there is no pass of this microbatch during which it could start.
    const int earliest = is_forward(need.first) || order.backward_follows ? 0 : units.size();
    const int gathered = std::max(earliest, need.first - options.prefetch);
    holds.push_back({.group = need.group,
                     .read = std::max(earliest, gathered - 1),
                     .gathered = gathered,
                     .first = need.first,
                     .last = need.last});
  }
  std::ranges::stable_sort(
      holds, {}, [](const WeightHold& hold) { return std::pair(hold.gathered, hold.first); });
  return holds;
}

std::vector<GradientHold> gradient_holds(const UnitOrder& units) {
  std::vector<GradientHold> holds;
  for (int u = units.size(); u-- > 0;) {
    for (const int group : units.units[static_cast<std::size_t>(u)].added) {
      const auto known = std::ranges::find(holds, group, &GradientHold::group);
      if (known != holds.end()) {
        known->last = u;
      } else {
        holds.push_back({.group = group, .first = u, .last = u});
      }
    }
  }
  return holds;
}

}  // namespace phalanx
