#pragma once
// A file in --save while the processes of a run join. A process that does not see it has another
// disk there.

#include <chrono>
#include <filesystem>
#include <string>

namespace phalanx {

class JoiningFile {
 public:
  static constexpr const char* kName = ".joining";

  // Makes the file, never through a link; a file that a killed run has left is replaced. The
  // destructor removes it. OutputError (73) where it cannot be written.
  explicit JoiningFile(const std::filesystem::path& save);
  JoiningFile(const JoiningFile&) = delete;
  JoiningFile& operator=(const JoiningFile&) = delete;
  ~JoiningFile();

  // The file's content: random digits.
  const std::string& text() const { return text_; }

  // Whether `save` has the file with this text, or gets it within `patience`: a shared file system
  // may show a new file with a delay. Links, pipes and devices do not count.
  static bool is_seen(const std::filesystem::path& save, const std::string& text,
                      std::chrono::milliseconds patience = std::chrono::seconds(5));

 private:
  std::filesystem::path path_;
  std::string text_;
};

}  // namespace phalanx
