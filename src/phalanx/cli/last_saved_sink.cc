#include "phalanx/cli/last_saved_sink.h"

#include <sys/stat.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/launch/last_saved.h"
#include "phalanx/saving/job_record.h"

namespace phalanx {
namespace {

class LastSavedSink final : public RunSink {
 public:
  LastSavedSink(int descriptor, std::filesystem::path save)
      : descriptor_(descriptor), save_(std::move(save)) {}

  std::string name() const override { return "last checkpoint, told to phalanx launch"; }
  // What the run does not go on from has been moved aside by now.
  void begin(const RunBegin& /*begin*/) override {
    const std::vector<SavedCheckpoint> saved = saved_checkpoints(save_);
    if (!saved.empty()) return launch::write_last_saved(descriptor_, saved.back());
    launch::write_last_saved(descriptor_, {.directory = save_ / kJobRecordName,
                                           .start = 0,
                                           .iteration = launch::kNothingSaved,
                                           .run_id = {}});
  }
  void note(const RunNote& note) override {
    if (note.kind != RunNote::Kind::kSaved) return;
    const auto directory = save_ / iteration_directory_name(note.iteration);
    // The run may have saved in another place, too.
    if (!std::filesystem::exists(directory)) return;
    const Manifest manifest = read_manifest_of(directory);
    launch::write_last_saved(descriptor_, {.directory = directory,
                                           .start = manifest.start,
                                           .iteration = manifest.iteration,
                                           .run_id = manifest.run_id});
  }

 private:
  int descriptor_;
  std::filesystem::path save_;
};

}  // namespace

std::unique_ptr<RunSink> make_last_saved_sink(const std::filesystem::path& save) {
  const char* const text = std::getenv(launch::kLastSavedVariable);
  if (text == nullptr || *text == '\0' || save.empty()) return nullptr;
  const auto descriptor = parse_number<int>(text);
  struct stat status {};
  if (!descriptor || ::fstat(*descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    throw UsageError("{}={}: not the descriptor of a file that phalanx launch passes on",
                     launch::kLastSavedVariable, std::string(text).substr(0, 80));
  }
  return std::make_unique<LastSavedSink>(*descriptor, absolute_path(save));
}

}  // namespace phalanx
