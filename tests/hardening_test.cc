// What the compiler and the linker make of the program and of what it opens: checked arrays and
// copies, addresses that are not known beforehand, and no table of functions that can be written to
// while it runs.

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/paths.h"

namespace phalanx {
namespace {

class ElfFile {
 public:
  explicit ElfFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (bytes_.compare(0, SELFMAG, ELFMAG) != 0 || bytes_[EI_CLASS] != ELFCLASS64) return;
    const auto header = read<Elf64_Ehdr>(0, 1).at(0);
    type_ = header.e_type;
    segments_ = read<Elf64_Phdr>(header.e_phoff, header.e_phnum);
    if (const Elf64_Phdr* dynamic = segment(PT_DYNAMIC)) {
      entries_ = read<Elf64_Dyn>(dynamic->p_offset, dynamic->p_filesz / sizeof(Elf64_Dyn));
    }
    // The linker puts them where their address is their place in the file.
    strings_ = bytes_.substr(std::min(flags(DT_STRTAB), bytes_.size()), flags(DT_STRSZ));
  }

  int type() const { return type_; }
  const Elf64_Phdr* segment(Elf64_Word type) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == type) return &segment;
    }
    return nullptr;
  }
  // Names of the functions of other libraries that it calls, and of its own that others may.
  bool names(const std::string& function) const {
    // Between two zeros.
    return strings_.find('\0' + function + '\0') != std::string::npos;
  }
  // Of the dynamic section; 0 where it has none.
  Elf64_Xword flags(Elf64_Sxword tag) const {
    for (const Elf64_Dyn& entry : entries_) {
      if (entry.d_tag == tag) return entry.d_un.d_val;
    }
    return 0;
  }

 private:
  template <typename T>
  std::vector<T> read(std::size_t offset, std::size_t count) const {
    std::vector<T> values(count);
    if (offset + count * sizeof(T) > bytes_.size()) return {};
    std::memcpy(values.data(), bytes_.data() + offset, count * sizeof(T));
    return values;
  }

  std::string bytes_;
  int type_ = ET_NONE;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Dyn> entries_;
  std::string strings_;  // the dynamic section's
};

TEST(Linking, TablesOfFunctionsAreReadOnly) {
  for (const std::string& path : {program_path(), build_path("libphalanx.so").string(),
                                  build_path("libphalanx_ucx.so").string()}) {
    SCOPED_TRACE(path);
    const ElfFile file(path);
    // A program at a fixed address would be ET_EXEC.
    ASSERT_EQ(file.type(), ET_DYN);
    EXPECT_NE(file.segment(PT_GNU_RELRO), nullptr);
    const bool binds_now =
        (file.flags(DT_FLAGS) & DF_BIND_NOW) != 0 || (file.flags(DT_FLAGS_1) & DF_1_NOW) != 0;
    EXPECT_TRUE(binds_now) << "functions are looked up when they are first called";
    ASSERT_NE(file.segment(PT_GNU_STACK), nullptr);
    EXPECT_EQ(file.segment(PT_GNU_STACK)->p_flags & PF_X, 0U);
  }
  EXPECT_NE(ElfFile(program_path()).flags(DT_FLAGS_1) & DF_1_PIE, 0U);
}

// Sanitizers bring checks of their own, and no optimisation means none of glibc's.
TEST(Compiling, ArraysAndCopiesAreChecked) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
  GTEST_SKIP() << "this build has sanitizers, or is not optimised";
#endif
  const ElfFile program(program_path());
  EXPECT_TRUE(program.names("__stack_chk_fail")) << "without -fstack-protector-strong";
  EXPECT_TRUE(program.names("__memcpy_chk")) << "without _FORTIFY_SOURCE";
  EXPECT_TRUE(ElfFile(build_path("libphalanx_ucx.so").string()).names("__stack_chk_fail"));
}

}  // namespace
}  // namespace phalanx
