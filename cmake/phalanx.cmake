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
# g++ spends a tenth of its time on garbage collection. With this it starts at a heap of 600 MB, which few files reach; a
# compiler takes a fifth more memory (0.8 GB).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("SHELL:--param ggc-min-heapsize=600000")
endif()
# Objects name their sources relative to the root of the repository.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
# A function that writes beyond its arrays ends the program when it returns, and glibc's copies compare their lengths with
# what they write to. The same flags for all code: precompiled headers are read with those that they were made with.
# Sanitizers see more, and replace the functions that would be checked; without optimisation nothing is known to check.
if(NOT PHALANX_SANITIZE)
  add_compile_options(-fstack-protector-strong)
  add_compile_options($<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
endif()
# Addresses are not known beforehand, and tables of functions are filled in at the start and read-only from then on.
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)
add_link_options(LINKER:-z,relro,-z,now)
find_program(PHALANX_LINKER mold)
if(PHALANX_LINKER)
  add_link_options(-fuse-ld=mold)
endif()
# ccache takes what a file includes from the compiler's dependency file, not from a run of the preprocessor for each file
# it does not know; what it is told to be sloppy about is what a precompiled header needs. It gives the compiler names
# relative to the build directory, so that copies of the repository in other places find the same objects.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

# phalanx_together(NAME RESULT SOURCE...): the sources in groups that the compiler reads together, as files that include
# them, where that is asked for: most of its time goes into headers and templates, which a group has in common. Sources
# that PHALANX_APART names stay as they are; what may not be together group_sources.awk knows.
option(PHALANX_UNITY "Compile several sources together: half of the time of a first build" OFF)
function(phalanx_together name result)
  set(${result} ${ARGN} PARENT_SCOPE)
  if(NOT PHALANX_UNITY)
    return()
  endif()
  set(directory ${CMAKE_BINARY_DIR}/together/${name})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/group_sources.awk)
  set(alone)
  set(candidates)
  foreach(source ${ARGN})
    get_filename_component(source ${source} ABSOLUTE)
    file(RELATIVE_PATH source ${PROJECT_SOURCE_DIR} ${source})
    if(source IN_LIST PHALANX_APART)
      list(APPEND alone ${PROJECT_SOURCE_DIR}/${source})
    else()
      list(APPEND candidates ${source})
    endif()
  endforeach()
  list(JOIN candidates "\n" lines)
  file(WRITE ${directory}/sources "${lines}\n")
  execute_process(COMMAND awk -v most=16 -v most_bytes=200000 -v rename=1
                          -f ${PROJECT_SOURCE_DIR}/cmake/group_sources.awk
                  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} INPUT_FILE ${directory}/sources
                  OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${lines}")
  file(GLOB made RELATIVE ${directory} ${directory}/*.cc)
  set(groups)
  foreach(line ${lines})
    string(REGEX MATCH "^([0-9]+) ([^ ]+) ?(.*)$" _ "${line}")
    set(group ${CMAKE_MATCH_1})
    set(source ${CMAKE_MATCH_2})
    separate_arguments(names UNIX_COMMAND "${CMAKE_MATCH_3}")
    # Not from the root: copies of the repository compile the same text.
    file(RELATIVE_PATH included ${directory} ${PROJECT_SOURCE_DIR}/${source})
    if(names)
      # Headers keep the names: they are read before.
      get_filename_component(own_directory ${source} DIRECTORY)
      file(STRINGS ${PROJECT_SOURCE_DIR}/${source} headers REGEX "^#include ")
      foreach(header ${headers})
        string(REGEX REPLACE "^#include [\"<](.*)[\">].*" "\\1" file ${header})
        if(EXISTS ${PROJECT_SOURCE_DIR}/${own_directory}/${file})
          file(RELATIVE_PATH file ${directory} ${PROJECT_SOURCE_DIR}/${own_directory}/${file})
          set(header "#include \"${file}\"")
        endif()
        string(APPEND text_${group} "${header}\n")
      endforeach()
      string(REGEX REPLACE "^src/phalanx/|\\.cc$" "" place ${source})
      string(MAKE_C_IDENTIFIER ${place} place)
    endif()
    foreach(name ${names})
      string(APPEND text_${group} "#define ${name} ${name}_of_${place}\n")
    endforeach()
    string(APPEND text_${group} "#include \"${included}\"\n")
    foreach(name ${names})
      string(APPEND text_${group} "#undef ${name}\n")
    endforeach()
    list(APPEND groups ${group})
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group ${groups})
    list(REMOVE_ITEM made ${group}.cc)
  endforeach()
  list(TRANSFORM made PREPEND ${directory}/)
  if(made)
    file(REMOVE ${made})
  endif()
  set(made)
  foreach(group ${groups})
    file(CONFIGURE OUTPUT ${directory}/${group}.cc CONTENT "${text_${group}}" @ONLY)
    list(APPEND made ${directory}/${group}.cc)
  endforeach()
  # What a source has for itself is here in a file that is included, and seen by those behind it.
  set_source_files_properties(${made} PROPERTIES COMPILE_OPTIONS "-Wno-subobject-linkage;-Wno-shadow;-Wshadow=local")
  set(${result} ${alone} ${made} PARENT_SCOPE)
endfunction()

# phalanx_precompiled(OWNER HEADER... [LIBS target...] [OPTIONS option...]): headers that targets with the same
# options precompile once. They hide a missing #include from the build: headers are also read alone, without
# (tools/check-headers), and clang-tidy reads files without.
function(phalanx_precompiled owner)
  cmake_parse_arguments(arg "" "" "LIBS;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${owner}.cc CONTENT "")
  add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${owner}.cc)
  target_link_libraries(${owner} PRIVATE fmt::fmt phalanx_options ${arg_LIBS})
  target_compile_options(${owner} PRIVATE ${arg_OPTIONS})
  target_precompile_headers(
    ${owner} PRIVATE ${arg_UNPARSED_ARGUMENTS} <algorithm> <array> <chrono> <cmath> <cstdint> <cstring>
    <filesystem> <functional> <limits> <map> <memory> <mutex> <optional> <set> <span> <string> <string_view> <tuple>
    <utility> <vector> <precompiled_fmt.h>)
  target_include_directories(${owner} PRIVATE ${PROJECT_SOURCE_DIR}/cmake)
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

# What takes time when it runs is in the libraries: optimising the tests (-O1) takes the compiler 1.8 times as long. Tests of
# ranks compare every element, where ThreadSanitizer looks at each access.
if(PHALANX_SANITIZE STREQUAL "thread")
  set(phalanx_test_options -O1)
elseif(PHALANX_SANITIZE)
  set(phalanx_test_options -O0)
else()
  # The copies that glibc checks need an optimising compiler.
  set(phalanx_test_options $<$<CONFIG:Release>:-O0> $<$<CONFIG:Release>:-U_FORTIFY_SOURCE>)
endif()

# phalanx_test(NAME SOURCE... [LIBS target...]): one GoogleTest program, its cases listed in ctest.
function(phalanx_test name)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  phalanx_together(${name} sources ${arg_UNPARSED_ARGUMENTS})
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} test_paths phalanx_options GTest::gtest_main GTest::gmock)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_options(${name} PRIVATE ${phalanx_test_options})
  phalanx_reuse_precompiled(${name})
  # Ranks that are processes open it.
  add_dependencies(${name} phalanx_ucx)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60)
endfunction()

# phalanx_folders(TABLE): reads the walls table; for each folder makes the library phalanx_<folder> of its .cc
# files (recursively) and the test program <folder>_test of its *_test.cc files. What judges the ops (ref/ and
# cases/) is the library phalanx_ops_reference: tests need it, and the selftest does.
function(phalanx_folders table)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
  file(STRINGS ${table} lines REGEX "^tests [a-z_]+:")
  foreach(line ${lines})
    string(REGEX MATCH "^tests ([a-z_]+):(.*)$" _ "${line}")
    set(folder ${CMAKE_MATCH_1})
    string(STRIP "${CMAKE_MATCH_2}" uses)
    separate_arguments(uses)
    list(TRANSFORM uses PREPEND phalanx_ OUTPUT_VARIABLE tests_of_${folder})
  endforeach()
  file(STRINGS ${table} lines REGEX "^[a-z_]+:")
  set(above_ops ops)
  foreach(line ${lines})
    string(REGEX MATCH "^([a-z_]+):(.*)$" _ "${line}")
    set(folder ${CMAKE_MATCH_1})
    string(STRIP "${CMAKE_MATCH_2}" uses)
    separate_arguments(uses)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/phalanx/${folder}/*.cc)
    # What is compiled for a device, or in its place, is no part of the libraries (cmake/cuda.cmake).
    list(FILTER sources EXCLUDE REGEX "/ops/cuda/")
    if(folder STREQUAL ops)
      list(APPEND sources ${PROJECT_SOURCE_DIR}/src/phalanx/ops/cuda/scratch.cc
                          ${PROJECT_SOURCE_DIR}/src/phalanx/ops/cuda/workspace_sizes.cc)
    endif()
    set(tests ${sources})
    list(FILTER tests INCLUDE REGEX "_test\\.cc$")
    list(FILTER sources EXCLUDE REGEX "/cuda/(device|emulated)/")
    # What becomes a shared object of its own is no part of the library.
    list(FILTER sources EXCLUDE REGEX "(_test|/cli/main|/comm/ucx/ucx_wire)\\.cc$")
    set(reference ${sources})
    list(FILTER reference INCLUDE REGEX "/ops/(ref|cases)/")
    list(FILTER sources EXCLUDE REGEX "/ops/(ref|cases)/")
    set(test_libraries ${tests_of_${folder}} phalanx_${folder})
    foreach(use ${uses})
      if(use IN_LIST above_ops)
        list(APPEND above_ops ${folder})
      endif()
    endforeach()
    if(folder IN_LIST above_ops)
      list(APPEND test_libraries phalanx_ops_reference)
    endif()
    phalanx_folder(${folder} ${sources})
    if(reference)
      phalanx_together(phalanx_${folder}_reference reference ${reference})
      add_library(phalanx_${folder}_reference STATIC ${reference})
      target_link_libraries(phalanx_${folder}_reference PUBLIC phalanx_${folder} PRIVATE phalanx_options)
      phalanx_reuse_precompiled(phalanx_${folder}_reference)
    endif()
    if(PHALANX_TESTS AND tests)
      phalanx_test(${folder}_test ${tests} LIBS ${test_libraries})
    endif()
  endforeach()
endfunction()

# The library of a folder. Reads `uses`.
function(phalanx_folder folder)
  set(kind STATIC)
  set(scope PUBLIC)
  if(folder STREQUAL "library")
    # What programs in any language open: it has all other rooms in it.
    set(kind SHARED)
  endif()
  if(NOT ARGN)
    set(kind INTERFACE)
    set(scope INTERFACE)
  endif()
  phalanx_together(phalanx_${folder} sources ${ARGN})
  add_library(phalanx_${folder} ${kind} ${sources})
  target_include_directories(phalanx_${folder} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                             $<INSTALL_INTERFACE:include>)
  if(ARGN)
    target_link_libraries(phalanx_${folder} PRIVATE phalanx_options)
    phalanx_reuse_precompiled(phalanx_${folder})
  endif()
  if(kind STREQUAL "SHARED")
    set(scope PRIVATE)
  endif()
  foreach(use ${uses})
    target_link_libraries(phalanx_${folder} ${scope} phalanx_${use})
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
