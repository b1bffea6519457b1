#pragma once
// Digests of fp32 trainings, kept in tests/golden/layout_digests.json: an edit that should not
// change results changes none of them, on any machine. Where results change on purpose,
// tests/golden/write-layout-digests writes the file again.

#include "harness.h"

namespace phalanx {

// That losses, norms, weights and moments of a layout have the bits that are kept, under the
// layout's name. Of other layouts than fp32 ones, at night of those that are not kept, and on a
// processor without fused multiply-add nothing is expected.
void expect_golden_digest(const TrainingResult& result, const Layout& layout);

}  // namespace phalanx
