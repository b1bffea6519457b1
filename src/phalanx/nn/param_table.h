#pragma once
// The parameters of a model part in global parameter order, its constants, and the states of its
// routers. Layers add them when they are built and keep the ids.

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/mesh/param_spec.h"
#include "phalanx/nn/constants.h"
#include "phalanx/nn/router_state.h"

namespace phalanx::nn {

// One use of a parameter by a unit: the parameter and, if others share it, the role in which the
// unit's gradient is summed.
struct ParamUse {
  ParamId id = -1;
  int role = -1;  // index into ParamTable::roles(); -1: the parameter has none
};

class ParamTable {
 public:
  // A role of a shared parameter that units of this table have.
  struct Role {
    ParamId id = -1;
    ParamRole role;
    int chunk = 0;  // of the unit
  };

  // Parameters that are added from now on and whose name fulfils this are not trainable.
  void freeze(std::function<bool(const std::string&)> is_frozen) {
    PHALANX_CHECK(specs_.empty(), "parameters in front of the choice of frozen ones");
    is_frozen_ = std::move(is_frozen);
  }
  // Later parameters belong to the rank's next chunk. Without a call the table is one chunk.
  void begin_chunk() {
    PHALANX_CHECK(begun_ > 0 || specs_.empty(), "parameters in front of the first chunk");
    ++begun_;
  }
  ParamId add(ParamSpec spec) {
    if (is_frozen_ && is_frozen_(spec.name)) spec.trainable = false;
    specs_.push_back(std::move(spec));
    chunks_.push_back(num_chunks() - 1);
    return static_cast<ParamId>(specs_.size()) - 1;
  }
  // Adds a state of a layer (ParamSpec::is_state).
  ParamId add_state(ParamSpec spec) {
    spec.trainable = false;
    spec.decays = false;
    spec.is_state = true;
    return add(std::move(spec));
  }
  RouterId add_router(RouterState router) {
    routers_.push_back(std::move(router));
    return static_cast<RouterId>(routers_.size()) - 1;
  }
  const std::vector<RouterState>& routers() const { return routers_; }
  // Adds a role of a shared parameter, and the parameter if it is new. A role may be added once.
  ParamUse add_shared(ParamSpec spec, const ParamRole& role) {
    PHALANX_CHECK(!spec.shared_by.empty(), "{} has a role, and nobody shares it", spec.name);
    const auto known = std::ranges::find(specs_, spec.name, &ParamSpec::name);
    const auto id = static_cast<ParamId>(known - specs_.begin());
    if (known == specs_.end()) {
      add(std::move(spec));
    } else {
      PHALANX_CHECK(known->shared_by == spec.shared_by && known->local_shape == spec.local_shape,
                    "{} is shared as {} {}, and as {} {}", spec.name, known->shared_by,
                    known->local_shape.to_string(), spec.shared_by, spec.local_shape.to_string());
    }
    for (const Role& other : roles_) {
      PHALANX_CHECK(other.id != id || other.role.order != role.order, "{} has two roles {}",
                    specs_[static_cast<std::size_t>(id)].name, role.order);
    }
    roles_.push_back({id, role, num_chunks() - 1});
    return {id, static_cast<int>(roles_.size()) - 1};
  }
  const std::vector<Role>& roles() const { return roles_; }
  // Adds a constant, unless one of that name exists.
  ConstantId add_constant(ConstantSpec spec) {
    const auto known = std::ranges::find(constants_, spec.name, &ConstantSpec::name);
    const auto id = static_cast<ConstantId>(known - constants_.begin());
    if (known == constants_.end()) {
      constants_.push_back(std::move(spec));
    } else {
      PHALANX_CHECK(known->dtype == spec.dtype && known->shape == spec.shape, "{} is {}, and {}",
                    spec.name, known->shape.to_string(), spec.shape.to_string());
    }
    return id;
  }
  const std::vector<ConstantSpec>& constants() const { return constants_; }
  const ParamSpec& operator[](ParamId id) const { return specs_[static_cast<std::size_t>(id)]; }
  const std::vector<ParamSpec>& specs() const { return specs_; }
  // Whether the parameter has a gradient; false for -1, a parameter that a layer does not have.
  bool trains(ParamId id) const { return id >= 0 && (*this)[id].trainable; }
  ParamId size() const { return static_cast<ParamId>(specs_.size()); }
  // The chunk of this rank that a parameter belongs to.
  int chunk(ParamId id) const { return chunks_[static_cast<std::size_t>(id)]; }
  int num_chunks() const { return begun_ > 0 ? begun_ : 1; }

 private:
  std::function<bool(const std::string&)> is_frozen_;  // none: every parameter is trained
  std::vector<ParamSpec> specs_;
  std::vector<int> chunks_;  // by ParamId
  std::vector<Role> roles_;
  std::vector<ConstantSpec> constants_;
  std::vector<RouterState> routers_;
  int begun_ = 0;
};

}  // namespace phalanx::nn
