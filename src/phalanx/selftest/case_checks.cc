#include "phalanx/selftest/case_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr double kSeconds = 120;  // of an op and a type, the reference's time included
constexpr int kShown = 3;         // failed rows of a check

// The rows of an op in a type.
struct Group {
  std::string op;
  DType storage;
  std::vector<const ops::Case*> rows;
};

std::vector<Group> groups_of(const ops::CaseTable& table, const CaseSelection& selection) {
  std::vector<Group> groups;
  std::size_t number = 0;
  for (const ops::Case& row : table.tests) {
    if (selection.products_alone && !row.product) continue;
    const auto turn = number++ % row.storage.size();
    for (const DType storage : selection.every_type ? row.storage : row.storage.subspan(turn, 1)) {
      auto group = std::ranges::find_if(
          groups, [&](const Group& one) { return one.op == row.op && one.storage == storage; });
      if (group == groups.end()) group = groups.insert(group, {row.op, storage, {}});
      group->rows.push_back(&row);
    }
  }
  return groups;
}

}  // namespace

void check_cases(const ops::Machine& machine, const CaseSelection& selection,
                 SelftestReport& report) {
  const ops::CaseTable table = ops::make_case_table();
  for (const Group& group : groups_of(table, selection)) {
    CheckResult result{.name = fmt::format("case table: {} {}{}", group.op, name_of(group.storage),
                                           selection.remark),
                       .passed = true};
    report.begin(result.name, kSeconds);
    const auto begin = std::chrono::steady_clock::now();
    int failed = 0;
    double share = -1.0;
    try {
      for (const ops::Case* row : group.rows) {
        const ops::Judgement judgement = ops::judge_twice(*row, group.storage, machine);
        if (!judgement.wrong.empty() && failed++ < kShown) {
          result.more += (failed == 1 ? "" : "; ") + judgement.wrong;
        }
        const double own =
            judgement.tolerance > 0 ? judgement.error / judgement.tolerance : judgement.error;
        if (own <= share) continue;
        share = own;
        result.error = judgement.error;
        result.tolerance = judgement.tolerance;
      }
    } catch (const ConfigError& error) {
      report.note(fmt::format("none   {}: {}", result.name, error.what()));
      continue;
    } catch (const Error& error) {
      ++failed;
      result.more += fmt::format("{}{}", failed == 1 ? "" : "; ", error.what());
    }
    result.passed = failed == 0;
    if (failed > kShown) result.more += fmt::format("; {} more rows", failed - kShown);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    report.add(result);
  }
}

}  // namespace phalanx
