#pragma once
// Digests of trainings in fp32, and in bf16 with products on AMX's tiles, kept in
// tests/golden/layout_digests.json: an edit that should not change results changes none of them, on
// any machine. Where results change on purpose, tests/golden/write-layout-digests writes the file
// again.

#include "harness.h"

namespace phalanx {

// That losses, norms, weights and moments of a layout have the bits that are kept, under the
// layout's name. Nothing is expected of other layouts, at night of those that are not kept, and on
// a processor without fused multiply-add.
void expect_golden_digest(const TrainingResult& result, const Layout& layout);

}  // namespace phalanx
