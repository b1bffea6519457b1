#pragma once
// A loss, or a score of an evaluation, under the name that logs give it.

#include <string>

namespace phalanx {

struct NamedLoss {
  std::string name;  // "lm loss"
  double value = 0;
  std::string title = {};  // for people, where the name says something else; empty: the name
};
inline const std::string& title_of(const NamedLoss& loss) {
  return loss.title.empty() ? loss.name : loss.title;
}

}  // namespace phalanx
