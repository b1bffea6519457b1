// Written by tests/golden/write-selftest-losses: the losses of 20 steps on a processor, with fp32
// products.

#include "phalanx/selftest/training_checks.h"

namespace phalanx {

const std::vector<StoredLosses>& stored_losses() {
  static const std::vector<StoredLosses> losses = {
      {"fp32", {3.91043055, 3.91116741, 3.79176129, 3.97595312, 3.84413807, 3.93060946, 3.7622701,
                3.77538561, 3.57970797, 3.75665005, 3.90180184, 3.84169133, 3.91314711, 3.5594534,
                3.73000827, 3.82682844, 3.72272009, 3.77291455, 3.86591563, 3.46396229}},
      {"bf16", {3.91070458, 3.91123555, 3.79193164, 3.97590164, 3.84412611, 3.93102761, 3.76321436,
                3.77657041, 3.58008634, 3.7557707,  3.90428586, 3.8340776,  3.91014451, 3.55775745,
                3.72749531, 3.82854477, 3.72248185, 3.76845355, 3.86597431, 3.46231239}},
  };
  return losses;
}

}  // namespace phalanx
