#pragma once
// The parameters of a model part in global parameter order. Layers add theirs when they are built
// and keep the ids.

#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/mesh/param_spec.h"

namespace phalanx::nn {

class ParamTable {
 public:
  // What is added from here on belongs to the rank's next chunk. A table in which none has begun is
  // one chunk.
  void begin_chunk() {
    PHALANX_CHECK(begun_ > 0 || specs_.empty(), "parameters in front of the first chunk");
    ++begun_;
  }
  ParamId add(ParamSpec spec) {
    specs_.push_back(std::move(spec));
    chunks_.push_back(num_chunks() - 1);
    return static_cast<ParamId>(specs_.size()) - 1;
  }
  const ParamSpec& operator[](ParamId id) const { return specs_[static_cast<std::size_t>(id)]; }
  const std::vector<ParamSpec>& specs() const { return specs_; }
  ParamId size() const { return static_cast<ParamId>(specs_.size()); }
  // The chunk of this rank that a parameter belongs to.
  int chunk(ParamId id) const { return chunks_[static_cast<std::size_t>(id)]; }
  int num_chunks() const { return begun_ > 0 ? begun_ : 1; }

 private:
  std::vector<ParamSpec> specs_;
  std::vector<int> chunks_;  // by ParamId
  int begun_ = 0;
};

}  // namespace phalanx::nn
