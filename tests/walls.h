#pragma once
// The walls between the folders of src/phalanx: reads the table walls.txt and checks every #include
// against it.

#include <filesystem>
#include <string>
#include <vector>

namespace phalanx::walls {

struct Violation {
  std::filesystem::path file;
  int line = 0;
  std::string message;

  // "ops/cpu/matmul.cc:3: message": compilers' form, the file relative to the checked tree.
  std::string to_string() const;
};

// Everything wrong in the tree `root`, which holds walls.txt and the folders that it names; sorted
// by file and line: a line of the table that cannot be read, a folder that the table does not know,
// a circle in the table, an include of a folder that is not allowed, an include of our own file by
// a relative name, a vendor header outside its rooms. A folder may include itself, what its line
// names, and everything those may include.
std::vector<Violation> check(const std::filesystem::path& root);

}  // namespace phalanx::walls
