#pragma once
// The colours of passes: forward blue, backward green, weight gradient orange. Chunks differ in
// lightness, the first is dark; the direction up is darker still, with white digits. Stages of an
// encoder are dark, stages of a decoder light.

#include <map>
#include <string>
#include <string_view>

#include "phalanx/pipeline/action.h"
#include "phalanx/pipeline/placement.h"
#include "phalanx/timelines/timeline_layout.h"

namespace phalanx {

// Gives passes their style classes and remembers which were given, for the rules and the legend.
class PassStyles {
 public:
  // The class of a pass's rectangle.
  std::string_view of(const Action& pass, const Placement& placement, Stack stack);
  // The class of the digits on it.
  static std::string_view digits_of(const Action& pass, const Placement& placement);

  // The rules of all classes that were given.
  std::string rules() const;

  struct Style {
    std::string name;
    std::string colour;
    bool is_up = false;
    bool is_one_of_many = false;  // the rank has several chunks
    Stack stack = Stack::kOnly;
  };
  // By kind of pass and name.
  using Used = std::map<ActionKind, std::map<std::string, Style>>;
  const Used& used() const { return used_; }

 private:
  Used used_;
};

}  // namespace phalanx
