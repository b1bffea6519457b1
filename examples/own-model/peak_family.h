#pragma once
// The family "peaks": numbers in, one answer for every number out.

#include <memory>

#include "phalanx/families/family.h"

namespace peaks {

std::shared_ptr<const phalanx::ModelFamily> peak_family();

}  // namespace peaks
