#pragma once
// The flags that name a corpus, for the commands that read one.

#include <string>
#include <vector>

#include "phalanx/corpus/options.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {

class CorpusFlags {
 public:
  // With a section of its own. The variables are those of `options`, which must outlive this.
  explicit CorpusFlags(CorpusOptions& options) : options_(options) {}
  void add_to(FlagSet& flags);
  // After parsing: the rest of the options, as far as these flags and `workers` (0: all usable
  // cores) say it. Lines that are left out and the like are logged from then on.
  void complete(std::int64_t workers);

 private:
  CorpusOptions& options_;
  std::vector<std::string> inputs_;
  std::vector<std::string> keys_;
  std::string format_;
};

}  // namespace phalanx
