#pragma once
// A file to which whole lines are appended, each handed to the system at once: what a killed
// process leaves is all of its lines and at most one that is torn.

#include <filesystem>
#include <string>

namespace phalanx {

class LineFile {
 public:
  // Appends; makes the file where it is not there, and ends a torn last line. OutputError where it
  // cannot be written.
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

}  // namespace phalanx
