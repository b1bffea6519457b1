#include "phalanx/rank/rank_arenas.h"

#include <numeric>

namespace phalanx {

RankArenas RankArenas::planning() {
  return {.parameters = Arena::planning("parameters"),
          .main_parameters = Arena::planning("main parameters"),
          .gradients = Arena::planning("gradients"),
          .optimizer = Arena::planning("optimizer"),
          .saved = Arena::planning("saved"),
          .workspace = Arena::planning("workspace"),
          .communication = Arena::planning("communication"),
          .constants = Arena::planning("constants"),
          .staging = Arena::planning("staging")};
}

std::vector<const Arena*> RankArenas::all() const {
  return {&parameters, &main_parameters, &gradients, &optimizer, &saved,
          &workspace,  &communication,   &constants, &staging};
}

std::vector<std::int64_t> RankArenas::high_water() const {
  std::vector<std::int64_t> marks;
  for (const Arena* arena : all()) marks.push_back(arena->high_water());
  return marks;
}

void RankArenas::forget_high_water() {
  for (Arena* arena : {&parameters, &main_parameters, &gradients, &optimizer, &saved, &workspace,
                       &communication, &constants, &staging}) {
    arena->forget_high_water();
  }
}

std::int64_t ProgramMemory::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

}  // namespace phalanx
