#pragma once
// Every row of the case table on a backend, twice, against the reference in double precision.

#include <string>

#include "phalanx/ops/cases/compare.h"
#include "phalanx/selftest/report.h"

namespace phalanx {

struct CaseSelection {
  bool every_type = true;  // else each row in one of its types, in turn
  bool products_alone = false;
  std::string remark = {};  // behind the names of checks: ", amx2 products"
};

// A check for each op and type. An op that the backend refuses, because it has no kernel of it, is
// noted.
void check_cases(const ops::Machine& machine, const CaseSelection& selection,
                 SelftestReport& report);

}  // namespace phalanx
