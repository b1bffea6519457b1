#pragma once
// A file to which whole lines are appended. Each line is written at once: a killed process leaves
// all of its lines, of which at most the last is torn.

#include <filesystem>
#include <string>
#include <string_view>

namespace phalanx {

class LineFile {
 public:
  // Creates the file if it does not exist, and ends a torn last line. OutputError where it cannot
  // be written.
  explicit LineFile(std::filesystem::path path);
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  ~LineFile();

  // Without its newline.
  void write(std::string line);

 private:
  void end_torn_line();

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// Writes to an open file. OutputError, with its path, where that fails.
void write_all(int descriptor, std::string_view bytes, const std::filesystem::path& path);

}  // namespace phalanx
