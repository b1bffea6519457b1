#pragma once
// Parts of the program that are shared objects of their own, opened when they are asked for.

#include <string_view>

namespace phalanx {

// Opens `file` beside the program, one folder above (for tests), or where it is installed; it stays
// open until the process ends. SystemError begins with `what` and, where there is no such file,
// ends with `advice`.
void* open_shared_object(std::string_view file, std::string_view what, std::string_view advice);

// A function of it. SystemError if there is none.
void* function_of(void* object, std::string_view file, const char* name);

}  // namespace phalanx
