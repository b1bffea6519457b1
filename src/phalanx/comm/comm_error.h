#pragma once
// The error of a wait for other ranks that has failed, or of a call that differs from theirs.

#include <string>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/comm_place.h"

namespace phalanx {

// Codes: 70 if the ranks' calls differ, 124 if one waited too long; if a rank failed, the code of
// that failure, which is 75 unless more is known. The place tells where the world failed, as far as
// it is known: place().rank is the rank that failed, this one or another.
class CommError : public Error {
 public:
  CommError(ErrorCode code, CommPlace place, const std::string& text)
      : Error(code, text), place_(std::move(place)) {}
  const CommPlace& place() const { return place_; }

 private:
  CommPlace place_;
};

}  // namespace phalanx
