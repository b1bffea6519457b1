#include "phalanx/start/openmp_settings.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "phalanx/base/cpu_affinity.h"

namespace phalanx {
namespace {

constexpr std::array<const char*, 3> kPlaceVariables = {"OMP_PROC_BIND", "OMP_PLACES",
                                                        "GOMP_CPU_AFFINITY"};

std::string set_variable() {
  for (const char* name : kPlaceVariables) {
    if (std::getenv(name) != nullptr) return name;
  }
  return "";
}

template <typename Function>
Function* function_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

// The library reads its variables when it is loaded, and binds the thread that loads it.
OpenMpPlaces openmp_places() {
  OpenMpPlaces result{.variable = set_variable(), .places = {}, .fault = {}};
  if (result.variable.empty()) return result;
  const std::vector<int> before = cores_of_thread();
  void* const library = ::dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    result.fault = "libgomp.so.1, which reads it, is not installed";
    return result;
  }
  bind_thread(before);
  auto* const places = function_of<int()>(library, "omp_get_num_places");
  auto* const size_of_place = function_of<int(int)>(library, "omp_get_place_num_procs");
  auto* const cores_of_place = function_of<void(int, int*)>(library, "omp_get_place_proc_ids");
  if (places == nullptr || size_of_place == nullptr || cores_of_place == nullptr) {
    result.fault = "this libgomp.so.1 does not tell its places";
    return result;
  }
  for (int place = 0; place < places(); ++place) {
    std::vector<int> cores(static_cast<std::size_t>(size_of_place(place)));
    cores_of_place(place, cores.data());
    result.places.push_back(std::move(cores));
  }
  return result;
}

std::vector<std::string> unused_openmp_variables() {
  std::vector<std::string> unused;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_openmp =
        name.starts_with("OMP_") || name.starts_with("GOMP_") || name.starts_with("KMP_");
    const bool is_used = name == "OMP_NUM_THREADS" ||
                         std::ranges::find(kPlaceVariables, name) != end(kPlaceVariables);
    if (is_openmp && !is_used) unused.emplace_back(name);
  }
  std::ranges::sort(unused);
  return unused;
}

}  // namespace phalanx
