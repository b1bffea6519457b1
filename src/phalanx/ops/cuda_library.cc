#include "phalanx/ops/cuda_library.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/shared_object.h"

namespace phalanx {
namespace {

struct Library {
  std::string_view file;
  std::string_view what;
  std::string_view target;
};

Library library_of(CudaMachine machine) {
  if (machine == CudaMachine::kDevice) return {"libphalanx_cuda.so", "CUDA", "cuda_device"};
  return {"libphalanx_cuda_emulated.so", "The emulated CUDA device", "phalanx_cuda_emulated"};
}

}  // namespace

const CudaInterface& open_cuda_interface(CudaMachine machine, int version) {
  const Library library = library_of(machine);
  const std::string needs = machine == CudaMachine::kDevice ? ", which needs nvcc" : "";
  void* object = open_shared_object(library.file, library.what,
                                    fmt::format("build target {}{}", library.target, needs));
  const auto interface_of =
      reinterpret_cast<CudaInterfaceOf>(function_of(object, library.file, kCudaInterfaceOf));
  const CudaInterface* table = interface_of(version);
  if (table == nullptr) {
    throw SystemError(
        "{}: {} does not have version {} of the interface that this program needs; "
        "build target {} again",
        library.what, library.file, version, library.target);
  }
  return *table;
}

const CudaInterface& cuda_interface(CudaMachine machine) {
  return open_cuda_interface(machine, kCudaInterfaceVersion);
}

}  // namespace phalanx
