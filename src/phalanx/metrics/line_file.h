#pragma once
// A file of JSON lines, to which lines are appended. Each line is written at once: a killed process
// leaves all of its lines, of which at most the last is torn.

#include <filesystem>
#include <string>

#include "phalanx/metrics/appended_file.h"

namespace phalanx {

class LineFile {
 public:
  // Creates the file if it does not exist, and cuts off a torn last line. OutputError where it
  // cannot be opened.
  explicit LineFile(const std::filesystem::path& path);

  // Without its newline.
  void write(std::string line) { file_.write(std::move(line += '\n')); }

 private:
  void end_last_line();

  AppendedFile file_;
};

}  // namespace phalanx
