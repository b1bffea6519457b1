#pragma once
// What is told of an exception that ends a command.

#include <string>

#include "phalanx/base/error.h"

namespace phalanx {

struct Fault {
  std::string message;  // a line for each fault
  ErrorCode code = ErrorCode::kInternal;
  int culprit = -1;  // the rank that failed first, if it is known
};

// Of the exception that is being handled.
Fault current_fault();

}  // namespace phalanx
