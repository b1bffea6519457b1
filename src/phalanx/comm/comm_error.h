#pragma once
// What ends a wait for other ranks, or a call that is not theirs.

#include <string>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/comm_place.h"

namespace phalanx {

// Codes: 70 where the ranks' calls differ, 124 where one waited too long; where a rank failed, that
// failure's own, which is 75 unless more is known. The place is where the world failed, as far as
// it is known: place().rank is whose failure it is, of this rank or another.
class CommError : public Error {
 public:
  CommError(ErrorCode code, CommPlace place, const std::string& text)
      : Error(code, text), place_(std::move(place)) {}
  const CommPlace& place() const { return place_; }

 private:
  CommPlace place_;
};

}  // namespace phalanx
