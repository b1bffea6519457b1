// How fast text becomes ids and data sets, and how soon training on them starts. Rates of encoding
// are told of one thread; tools/compare-tokenizers holds them against other programs.

#include "bench_data.h"

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "bench_main.h"
#include "phalanx/cli/tokenizer_flags.h"

namespace phalanx::bench {
namespace {

// A directory that goes away.
class Workplace {
 public:
  Workplace()
      : path_(std::filesystem::temp_directory_path() / fmt::format("bench_data_{}", ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Workplace() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  using namespace phalanx::bench;
  DataOptions options;
  std::string only;
  phalanx::TokenizerFlags tokenizer;
  bool is_given = false;
  const auto add = [&](phalanx::FlagSet& flags) {
    flags.add({.name = "--only",
               .help = "What is measured (default: everything)",
               .choices = "encode train preprocess load startup"},
              &only);
    flags.add({.name = "--input",
               .help = "Text to encode and learn from (default: generated)",
               .value_name = "FILE"},
              &options.input);
    flags.add({.name = "--document-bytes",
               .help = "Lines of the text are joined to documents of so many bytes",
               .range = phalanx::at_least(0)},
              &options.document_bytes);
    flags.add({.name = "--seconds", .help = "Of each rate", .range = phalanx::above(0)},
              &options.seconds);
    flags.add({.name = "--training-mb",
               .help = "Text that 32,768 ids are learned of",
               .range = phalanx::at_least(1)},
              &options.training_mb);
    flags.add({.name = "--documents",
               .help = "Of the data set that training starts with",
               .range = phalanx::at_least(1000)},
              &options.documents);
    flags.add({.name = "--workers",
               .help = "Most threads of preprocessing and loading",
               .range = phalanx::from_to(1, 1024)},
              &options.workers);
    flags.add(
        {.name = "--with-tokenizer",
         .help = "Encode with the tokenizer of the flags below, not with a learned vocabulary"},
        &is_given);
    flags.section("Tokenizer");
    tokenizer.add_to(flags);
  };
  const auto is_wanted = [&](std::string_view what) { return only.empty() || only == what; };
  return bench_main(argc, argv, "bench_data",
                    "How fast text becomes ids and data sets, and how soon training starts.", add,
                    [&] {
                      const Workplace workplace;
                      options.directory = workplace.path();
                      if (is_wanted("encode")) {
                        measure_encoding(options, is_given ? tokenizer.make() : nullptr);
                      }
                      if (is_wanted("train")) measure_bpe_training(options);
                      if (is_wanted("preprocess")) measure_preprocessing(options);
                      if (is_wanted("load")) measure_loading(options);
                      if (is_wanted("startup")) measure_data_startup(options);
                    });
}
