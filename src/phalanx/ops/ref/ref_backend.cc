#include "phalanx/ops/ref/ref_backend.h"

#include "phalanx/ops/host_backend.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx {

std::unique_ptr<Backend> make_ref_backend() {
  return std::make_unique<ops::HostBackend<ref::RefDevice>>(ref::RefDevice{});
}

}  // namespace phalanx
