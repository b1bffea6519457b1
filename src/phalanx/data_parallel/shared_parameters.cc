#include "phalanx/data_parallel/shared_parameters.h"

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// The roles of a parameter, as numbers of the table, in increasing order.
std::vector<int> ordered_roles(const nn::ParamTable& table, ParamId id) {
  const auto& roles = table.roles();
  std::vector<int> numbers;
  for (int r = 0; r < std::ssize(roles); ++r) {
    if (roles[static_cast<std::size_t>(r)].id == id) numbers.push_back(r);
  }
  std::ranges::sort(numbers, {},
                    [&](int r) { return roles[static_cast<std::size_t>(r)].role.order; });
  return numbers;
}

// The index of `rank` among the holders; appends a new rank.
int holder_index(std::vector<int>& holders, int rank) {
  const auto found = std::ranges::find(holders, rank);
  const auto index = static_cast<int>(found - holders.begin());
  if (found == holders.end()) holders.push_back(rank);
  return index;
}

// An all-reduce needs one run per holder, and one role per run after the first.
bool needs_chain(const SharedParameter& parameter) {
  if (parameter.runs.size() != parameter.holders.size()) return true;
  return std::ranges::any_of(parameter.runs.begin() + 1, parameter.runs.end(),
                             [](const RoleRun& run) { return run.roles.size() > 1; });
}

SharedParameter shared_parameter(const nn::ParamTable& whole, ParamId id,
                                 const std::vector<int>& roles,
                                 std::span<const int> rank_of_stage) {
  SharedParameter parameter{.name = whole[id].name, .shared_by = whole[id].shared_by};
  for (const int number : roles) {
    const nn::ParamTable::Role& role = whole.roles()[static_cast<std::size_t>(number)];
    const int rank = rank_of_stage[static_cast<std::size_t>(role.chunk)];
    const int holder = holder_index(parameter.holders, rank);
    if (parameter.runs.empty() || parameter.runs.back().holder != holder) {
      parameter.runs.push_back({holder, {}});
    }
    parameter.runs.back().roles.push_back(role.role.order);
  }
  parameter.is_chain = needs_chain(parameter);
  return parameter;
}

ParamId id_of(const nn::ParamTable& table, const std::string& name) {
  const auto found = std::ranges::find(table.specs(), name, &ParamSpec::name);
  PHALANX_CHECK(found != table.specs().end(), "{} is not on the rank that holds it", name);
  return static_cast<ParamId>(found - table.specs().begin());
}

SharedSum::Run run_of(const nn::ParamTable& table, ParamId id, const SharedParameter& parameter,
                      std::size_t number) {
  SharedSum::Run run{.roles = {}, .number = static_cast<int>(number)};
  if (number > 0) run.previous = parameter.runs[number - 1].holder;
  if (number + 1 < parameter.runs.size()) run.next = parameter.runs[number + 1].holder;
  for (const int order : parameter.runs[number].roles) {
    const auto found = std::ranges::find_if(table.roles(), [&](const nn::ParamTable::Role& role) {
      return role.id == id && role.role.order == order;
    });
    PHALANX_CHECK(found != table.roles().end(), "{} has no role {} on the rank that holds it",
                  parameter.name, order);
    run.roles.push_back(static_cast<int>(found - table.roles().begin()));
  }
  return run;
}

}  // namespace

int SharedParameter::counting_holder() const { return std::ranges::min(holders); }

std::vector<SharedParameter> shared_parameters(const nn::ParamTable& whole,
                                               std::span<const int> rank_of_stage) {
  PHALANX_CHECK(std::ssize(rank_of_stage) == whole.num_chunks(), "{} stages on the ranks of {}",
                whole.num_chunks(), rank_of_stage.size());
  std::vector<SharedParameter> parameters;
  for (ParamId id = 0; id < whole.size(); ++id) {
    const std::vector<int> roles = ordered_roles(whole, id);
    if (!roles.empty()) parameters.push_back(shared_parameter(whole, id, roles, rank_of_stage));
  }
  return parameters;
}

std::vector<SharedSum> shared_sums(const nn::ParamTable& table,
                                   std::span<const SharedParameter> parameters, int pipeline_rank) {
  std::vector<SharedSum> sums;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const SharedParameter& parameter = parameters[p];
    const auto holder = std::ranges::find(parameter.holders, pipeline_rank);
    if (holder == parameter.holders.end()) continue;
    const ParamId id = id_of(table, parameter.name);
    if (!table.trains(id)) continue;
    const auto me = static_cast<int>(holder - parameter.holders.begin());
    SharedSum sum{.id = id,
                  .parameter = static_cast<int>(p),
                  .holders = static_cast<int>(parameter.holders.size()),
                  .is_chain = parameter.is_chain,
                  .last_holder = parameter.runs.back().holder,
                  .runs = {}};
    for (std::size_t r = 0; r < parameter.runs.size(); ++r) {
      if (parameter.runs[r].holder == me) sum.runs.push_back(run_of(table, sum.id, parameter, r));
    }
    sums.push_back(std::move(sum));
  }
  return sums;
}

std::vector<SharedSum> shared_sums(const nn::ParamTable& whole) {
  const std::vector<int> one_rank(static_cast<std::size_t>(whole.num_chunks()), 0);
  return shared_sums(whole, shared_parameters(whole, one_rank), 0);
}

}  // namespace phalanx
