// The program of the model that finds peaks (peak_family.h): peaks pretrain, peaks plan, ...

#include "peak_family.h"
#include "phalanx/cli/family_program.h"

int main(int argc, char** argv) {
  return phalanx::run_family_program(peaks::peak_family(), argc, argv);
}
