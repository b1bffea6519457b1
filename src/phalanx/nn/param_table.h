#pragma once
// The parameters of a model part in global parameter order. Layers add theirs when they are built
// and keep the ids.

#include <vector>

#include "phalanx/mesh/param_spec.h"

namespace phalanx::nn {

class ParamTable {
 public:
  ParamId add(ParamSpec spec) {
    specs_.push_back(std::move(spec));
    return static_cast<ParamId>(specs_.size()) - 1;
  }
  const ParamSpec& operator[](ParamId id) const { return specs_[static_cast<std::size_t>(id)]; }
  const std::vector<ParamSpec>& specs() const { return specs_; }
  ParamId size() const { return static_cast<ParamId>(specs_.size()); }

 private:
  std::vector<ParamSpec> specs_;
};

}  // namespace phalanx::nn
