#pragma once
// A file in --save while the processes of a run join: who does not see it writes to another disk.

#include <chrono>
#include <filesystem>
#include <string>

namespace phalanx {

class JoiningFile {
 public:
  static constexpr const char* kName = ".joining";

  // Made anew, never through a link; what a killed run has left there is replaced. OutputError (73)
  // where it cannot be written. Removed at the end.
  explicit JoiningFile(const std::filesystem::path& save);
  JoiningFile(const JoiningFile&) = delete;
  JoiningFile& operator=(const JoiningFile&) = delete;
  ~JoiningFile();

  // What stands in it: random digits.
  const std::string& text() const { return text_; }

  // Whether `save` has a file with this text, or gets it within `patience`: file systems of several
  // hosts may show what is new with a delay. Links, pipes and devices are none.
  static bool is_seen(const std::filesystem::path& save, const std::string& text,
                      std::chrono::milliseconds patience = std::chrono::seconds(5));

 private:
  std::filesystem::path path_;
  std::string text_;
};

}  // namespace phalanx
