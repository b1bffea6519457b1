#pragma once
// The flags that name a corpus, for the commands that read one.

#include <string>
#include <vector>

#include "phalanx/corpus/options.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {

class CorpusFlags {
 public:
  // Adds the flags in a section of their own. Their variables are members of `options`, which must
  // outlive this object.
  explicit CorpusFlags(CorpusOptions& options) : options_(options) {}
  void add_to(FlagSet& flags);
  // To be called after parsing: fills in the options that follow from these flags and from
  // `workers` (0: all usable cores). From then on lines that are left out, and warnings, are
  // logged.
  void complete(std::int64_t workers);

 private:
  CorpusOptions& options_;
  std::vector<std::string> inputs_;
  std::vector<std::string> keys_;
  std::string format_;
};

}  // namespace phalanx
