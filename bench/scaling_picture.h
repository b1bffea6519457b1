#pragma once
// The cells of `bench_comm --scaling` as a picture: a panel for each operation and size.

#include <span>
#include <string>
#include <vector>

#include "scaling_model.h"

namespace phalanx::bench {

// `ways` in the order of the legend.
std::string scaling_picture(std::span<const ScalingCell> cells,
                            const std::vector<std::string>& ways);

}  // namespace phalanx::bench
