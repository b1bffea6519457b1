#pragma once
// What OpenMP's environment variables say of threads. Ranks compute on threads of their own, but
// people set these variables for all programs of a machine.

#include <string>
#include <vector>

namespace phalanx {

// The places of OMP_PLACES, OMP_PROC_BIND or GOMP_CPU_AFFINITY, as GCC's OpenMP library reads them.
struct OpenMpPlaces {
  std::string variable;                  // that is set; "": none
  std::vector<std::vector<int>> places;  // the cores of each; empty: threads are not to be bound
  std::string fault;                     // why the variable could not be read
};
OpenMpPlaces openmp_places();

// Variables of OpenMP that are set and change nothing here: OMP_WAIT_POLICY, KMP_BLOCKTIME, ...
std::vector<std::string> unused_openmp_variables();

}  // namespace phalanx
