#include "phalanx/base/shared_object.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "phalanx/base/error.h"

namespace phalanx {

void* open_shared_object(std::string_view file, std::string_view what, std::string_view advice) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  std::string reason;
  for (const char* folder : {".", "..", "../lib", "../lib/phalanx"}) {
    const auto path = program / folder / file;
    if (!std::filesystem::exists(path, error)) continue;
    // Never closed: its threads and handlers live until the process ends.
    if (void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return object;
    reason = dlerror();
  }
  if (!reason.empty()) throw SystemError("{}: {}", what, reason);
  throw SystemError("{}: {} is not beside the program, in {}, nor in its ../lib; {}", what, file,
                    program.string(), advice);
}

void* function_of(void* object, std::string_view file, const char* name) {
  void* function = dlsym(object, name);
  if (function == nullptr) throw SystemError("{}: {}", file, dlerror());
  return function;
}

}  // namespace phalanx
