#include "phalanx/model/model.h"

#include <set>
#include <string_view>

namespace phalanx {

std::int64_t Model::parameters() const {
  nn::ParamTable table;
  build_chunk(whole(), table);
  std::int64_t count = 0;
  std::set<std::string_view> counted;
  for (const ParamSpec& spec : table.specs()) {
    if (!spec.is_state && counted.insert(spec.name).second) count += spec.global_shape.count();
  }
  return count;
}

}  // namespace phalanx
