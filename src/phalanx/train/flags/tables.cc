#include <algorithm>

#include "phalanx/train/flags.h"
#include "phalanx/train/flags/sections.h"

namespace phalanx {

std::vector<TrainFlag> train_flags() {
  std::vector<TrainFlag> all;
  for (const auto part :
       {model_flags(), optimizer_flags(), layout_flags(), run_flags(), data_flags()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  const auto place = [](const TrainFlag& flag) {
    return std::ranges::find(kSections, flag.section);
  };
  std::ranges::stable_sort(all, {}, place);
  return all;
}

void add_train_flags(FlagSet& flags, TrainConfig& config) {
  for (const TrainFlag& flag : train_flags()) {
    flags.section(std::string(flag.section));
    flags.add(flag.spec, flag.target != nullptr ? flag.target(config) : FlagTarget{});
  }
}

}  // namespace phalanx
