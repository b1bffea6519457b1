#pragma once
// The house's colours of a timeline: forward blue, backward green, weight gradient orange; chunks
// by lightness, the first dark; the direction up darker still, with white digits. Of an encoder and
// a decoder the first is dark, the second light.

#include <map>
#include <string>
#include <string_view>

#include "phalanx/pipeline/action.h"
#include "phalanx/pipeline/placement.h"
#include "phalanx/timelines/timeline_layout.h"

namespace phalanx {

// Gives the passes of a document their style classes, and remembers which there are.
class PassStyles {
 public:
  // The class of a pass's rectangle.
  std::string_view of(const Action& pass, const Placement& placement, Stack stack);
  // The class of the digits on it.
  static std::string_view digits_of(const Action& pass, const Placement& placement);

  // The rules of all classes that were asked for.
  std::string rules() const;

  struct Style {
    std::string name;
    std::string colour;
    bool is_up = false;
    bool is_one_of_many = false;  // chunks
    Stack stack = Stack::kOnly;
  };
  // By kind of pass, chunks in order.
  using Used = std::map<ActionKind, std::map<std::string, Style>>;
  const Used& used() const { return used_; }

 private:
  Used used_;
};

}  // namespace phalanx
