# Compiler options of all our code, and one library (and one test program) per folder of the walls table.

add_library(phalanx_options INTERFACE)
# -Wrestrict: g++ 12 reports libstdc++'s own std::string (GCC bug 105651).
target_compile_options(phalanx_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                       -Wno-sign-conversion -Wno-restrict)
# GCC joins a product and a sum into one rounding where the target has the instruction, also those that Highway's functions
# were given apart, and not alike for every target: the bits would depend on the vector width. And a fused op must round
# where its parts would.
target_compile_options(phalanx_options INTERFACE -ffp-contract=off)
# Another compiler has other warnings: they stop our builds (the presets), not those of who only uses the code.
option(PHALANX_WERROR "Warnings are errors" OFF)
if(PHALANX_WERROR)
  target_compile_options(phalanx_options INTERFACE -Werror)
endif()
option(PHALANX_PCH "Precompile the standard library, fmt and GoogleTest: a third less to compile" OFF)
set(PHALANX_SANITIZE "" CACHE STRING "Sanitizers for -fsanitize= (address,undefined or thread)")
if(PHALANX_SANITIZE)
  add_compile_options(-fsanitize=${PHALANX_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PHALANX_SANITIZE})
  # GCC's own manual: sanitizers make this warning report what is initialised.
  target_compile_options(phalanx_options INTERFACE -Wno-maybe-uninitialized)
  # Races do not depend on the width of vectors: one target instead of three builds in a third of the time.
  if(PHALANX_SANITIZE STREQUAL "thread")
    # And asio's fences, of which ThreadSanitizer knows nothing: its queue has a mutex.
    add_compile_definitions(HWY_COMPILE_ONLY_STATIC ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()
find_program(PHALANX_LINKER mold)
if(PHALANX_LINKER)
  add_link_options(-fuse-ld=mold)
endif()
# ccache takes what a file includes from the compiler's dependency file, not from a run of the preprocessor for each file
# it does not know; what it is told to be sloppy about is what a precompiled header needs.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

# phalanx_precompiled(OWNER HEADER... [LIBS target...] [OPTIONS option...]): headers that targets with the same
# options precompile once. They hide a missing #include from the build: headers are also compiled alone, without
# (target phalanx_headers), and clang-tidy reads files without.
function(phalanx_precompiled owner)
  cmake_parse_arguments(arg "" "" "LIBS;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${owner}.cc CONTENT "")
  add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${owner}.cc)
  target_link_libraries(${owner} PRIVATE fmt::fmt phalanx_options ${arg_LIBS})
  target_compile_options(${owner} PRIVATE ${arg_OPTIONS})
  target_precompile_headers(
    ${owner} PRIVATE ${arg_UNPARSED_ARGUMENTS} <algorithm> <array> <chrono> <cmath> <cstdint> <cstring>
    <filesystem> <functional> <limits> <map> <memory> <mutex> <optional> <set> <span> <string> <string_view> <tuple>
    <utility> <vector> ${PROJECT_SOURCE_DIR}/cmake/precompiled_fmt.h)
endfunction()

function(phalanx_reuse_precompiled target)
  set(owner phalanx_precompiled)
  if(target MATCHES "_test$")
    string(APPEND owner _tests)
  endif()
  if(PHALANX_PCH)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    # After a precompiled header g++ 12 reports libstdc++'s own std::string with these two as well.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endfunction()

# What takes time when it runs is in the libraries: optimising the tests more doubles the time of compiling them. Those of
# ranks compare every element, where ThreadSanitizer looks at each access.
if(PHALANX_SANITIZE STREQUAL "thread")
  set(phalanx_test_options -O1)
elseif(PHALANX_SANITIZE)
  set(phalanx_test_options -O0)
else()
  set(phalanx_test_options $<$<CONFIG:Release>:-O1>)
endif()

# phalanx_test(NAME SOURCE... [LIBS target...]): one GoogleTest program, its cases listed in ctest.
function(phalanx_test name)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} phalanx_options GTest::gtest_main GTest::gmock)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${name} PRIVATE PHALANX_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_compile_options(${name} PRIVATE ${phalanx_test_options})
  phalanx_reuse_precompiled(${name})
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
endfunction()

# phalanx_part(FOLDER PART REGEX [LIBS target...]): the sources of a folder that match are phalanx_<folder>_<part>, a library
# below the folder's own: tests that need no more build no more.
function(phalanx_part folder part regex)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  set(part_of_${folder} phalanx_${folder}_${part} PARENT_SCOPE)
  set(part_regex_${folder} ${regex} PARENT_SCOPE)
  set(part_uses_${folder} ${arg_LIBS} PARENT_SCOPE)
endfunction()

# phalanx_folders(TABLE): reads the walls table; for each folder makes the library phalanx_<folder> of its .cc
# files (recursively) and the test program <folder>_test of its *_test.cc files. What judges the ops (ref/ and
# cases/) is the library phalanx_ops_reference: tests need it, the program does not.
function(phalanx_folders table)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
  file(STRINGS ${table} lines REGEX "^[a-z_]+:")
  set(above_ops ops)
  foreach(line ${lines})
    string(REGEX MATCH "^([a-z_]+):(.*)$" _ "${line}")
    set(folder ${CMAKE_MATCH_1})
    string(STRIP "${CMAKE_MATCH_2}" uses)
    separate_arguments(uses)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/phalanx/${folder}/*.cc)
    set(tests ${sources})
    list(FILTER tests INCLUDE REGEX "_test\\.cc$")
    # What becomes a shared object of its own is no part of the library.
    list(FILTER sources EXCLUDE REGEX "(_test|/cli/main|/comm/ucx/ucx_wire)\\.cc$")
    set(reference ${sources})
    list(FILTER reference INCLUDE REGEX "/ops/(ref|cases)/")
    list(FILTER sources EXCLUDE REGEX "/ops/(ref|cases)/")
    set(test_libraries phalanx_${folder})
    foreach(use ${uses})
      if(use IN_LIST above_ops)
        list(APPEND above_ops ${folder})
      endif()
    endforeach()
    if(folder IN_LIST above_ops)
      list(APPEND test_libraries phalanx_ops_reference)
    endif()
    set(part ${part_of_${folder}})
    if(part)
      set(sources_of_part ${sources})
      list(FILTER sources_of_part INCLUDE REGEX ${part_regex_${folder}})
      list(REMOVE_ITEM sources ${sources_of_part})
    endif()
    phalanx_folder(${folder} ${sources})
    if(reference)
      add_library(phalanx_${folder}_reference STATIC ${reference})
      target_link_libraries(phalanx_${folder}_reference PUBLIC phalanx_${folder} PRIVATE phalanx_options)
      phalanx_reuse_precompiled(phalanx_${folder}_reference)
    endif()
    if(PHALANX_TESTS AND tests)
      phalanx_test(${folder}_test ${tests} LIBS ${test_libraries})
    endif()
  endforeach()
endfunction()

# The library of a folder. Reads `uses`, `part` and `sources_of_part`.
function(phalanx_folder folder)
  set(kind STATIC)
  set(scope PUBLIC)
  if(NOT ARGN)
    set(kind INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(phalanx_${folder} ${kind} ${ARGN})
  target_include_directories(phalanx_${folder} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                             $<INSTALL_INTERFACE:include>)
  if(ARGN)
    target_link_libraries(phalanx_${folder} PRIVATE phalanx_options)
    phalanx_reuse_precompiled(phalanx_${folder})
  endif()
  if(part)
    add_library(${part} STATIC ${sources_of_part})
    target_include_directories(${part} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include>)
    target_link_libraries(${part} PUBLIC ${part_uses_${folder}} PRIVATE phalanx_options)
    phalanx_reuse_precompiled(${part})
    target_link_libraries(phalanx_${folder} PUBLIC ${part})
  endif()
  foreach(use ${uses})
    target_link_libraries(phalanx_${folder} ${scope} phalanx_${use})
  endforeach()
endfunction()

# Target phalanx_headers compiles every header alone: without what others include before it, without optimising,
# for nothing runs. phalanx_headers(LIBRARY... [HUBS header...]): a header that includes a hub, itself or through others,
# is compiled behind that hub, precompiled: it sees nothing that it does not include. The first hub counts.
function(phalanx_headers)
  cmake_parse_arguments(arg "" "" "HUBS" ${ARGN})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src src/*.h)
  foreach(header ${headers})
    file(STRINGS src/${header} included REGEX "^#include \"phalanx/")
    list(TRANSFORM included REPLACE "^#include \"([^\"]*)\".*" "\\1")
    set("included_by_${header}" ${included})
  endforeach()
  add_custom_target(phalanx_headers)
  foreach(hub ${arg_HUBS} "")
    if(hub)
      set(behind ${hub})
      set(before)
      while(NOT "${before}" STREQUAL "${behind}")
        set(before ${behind})
        foreach(header ${headers})
          foreach(included ${included_by_${header}})
            if(included IN_LIST behind AND NOT header IN_LIST behind)
              list(APPEND behind ${header})
            endif()
          endforeach()
        endforeach()
      endwhile()
      list(REMOVE_AT behind 0)
    else()
      set(behind ${headers})
    endif()
    set(sources)
    foreach(header ${behind})
      if(header IN_LIST headers)
        set(source ${CMAKE_BINARY_DIR}/headers/${header}.cc)
        file(CONFIGURE OUTPUT ${source} CONTENT "#include \"@header@\"\n" @ONLY)
        list(APPEND sources ${source})
      endif()
    endforeach()
    list(REMOVE_ITEM headers ${behind})
    string(MAKE_C_IDENTIFIER "phalanx_headers_${hub}" target)
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources})
    target_link_libraries(${target} PRIVATE ${arg_UNPARSED_ARGUMENTS} phalanx_options)
    target_compile_options(${target} PRIVATE -O0 ${OpenMP_CXX_FLAGS})
    if(hub)
      target_precompile_headers(${target} PRIVATE src/${hub})
    endif()
    add_dependencies(phalanx_headers ${target})
  endforeach()
endfunction()

# phalanx_messages(NAME FILE.proto): the library of the C++ that protoc makes of it, <FILE.pb.h>.
function(phalanx_messages name file)
  get_filename_component(directory ${file} DIRECTORY)
  get_filename_component(stem ${file} NAME_WE)
  set(made ${CMAKE_BINARY_DIR}/messages)
  file(MAKE_DIRECTORY ${made})
  add_custom_command(
    OUTPUT ${made}/${stem}.pb.cc ${made}/${stem}.pb.h
    COMMAND protobuf::protoc --cpp_out=${made} --proto_path=${PROJECT_SOURCE_DIR}/${directory} ${stem}.proto
    DEPENDS ${file} protobuf::protoc VERBATIM)
  add_library(${name} STATIC ${made}/${stem}.pb.cc ${made}/${stem}.pb.h)
  target_include_directories(${name} SYSTEM PUBLIC $<BUILD_INTERFACE:${made}>)
  target_link_libraries(${name} PUBLIC protobuf::libprotobuf-lite)
endfunction()

# phalanx_vendor(FOLDER TARGET...): vendor libraries that stay inside one folder.
function(phalanx_vendor folder)
  get_target_property(kind phalanx_${folder} TYPE)
  if(NOT kind STREQUAL "INTERFACE_LIBRARY")
    target_link_libraries(phalanx_${folder} PRIVATE ${ARGN})
  endif()
endfunction()
