# CUDA (docs/cuda.md). The kernels and what launches them are compiled twice. For the tests by the host's compiler, with the
# emulated machine, driver and cuBLASLt: library cuda_emulated. And where nvcc is, by nvcc, with the real ones: target
# cuda_device makes libphalanx_cuda.so; nothing that is built by default depends on it.

set(cuda ${PROJECT_SOURCE_DIR}/src/phalanx/cuda)
file(GLOB cuda_host CONFIGURE_DEPENDS src/phalanx/ops/cuda/*.cc src/phalanx/ops/cuda/check/*.cc)
# The program has the sizes of scratch memory, too: they are in phalanx_ops.
list(FILTER cuda_host EXCLUDE REGEX "(_test|/record_digests|/interface|/scratch|/workspace_sizes)\\.cc$")
file(GLOB cuda_kernels CONFIGURE_DEPENDS src/phalanx/ops/cuda/*.cu src/phalanx/ops/cuda/check/*.cu)
# What a device must give is a part of what is built: a device may be where no source is.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/phalanx/ops/cuda/check/expected.txt)
file(READ src/phalanx/ops/cuda/check/expected.txt digests)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/cuda/digests.cc @ONLY CONTENT [[
#include "phalanx/ops/cuda/check/expected.h"

namespace phalanx::cuda {
std::string built_in_digests() {
  return R"digests(@digests@)digests";
}
}  // namespace phalanx::cuda
]])
list(APPEND cuda_host ${CMAKE_BINARY_DIR}/cuda/digests.cc)
# Lines for nvcc in kernels, which another compiler does not know.
set(cuda_flags -Wno-unknown-pragmas)

# A shared object that exports one function, whatever its libraries would, and has all that it calls.
function(phalanx_cuda_object name)
  set(exports ${PROJECT_SOURCE_DIR}/src/phalanx/ops/cuda/exports.map)
  target_link_options(${name} PRIVATE LINKER:--version-script=${exports})
  # A sanitizer's functions are those of the program.
  if(NOT PHALANX_SANITIZE)
    target_link_options(${name} PRIVATE LINKER:-z,defs)
  endif()
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} LINK_DEPENDS ${exports})
endfunction()

if(PHALANX_TESTS)
  # No sanitizer looks at the machine, the driver and their fibers: they tell it what they do.
  file(GLOB cuda_machine CONFIGURE_DEPENDS src/phalanx/cuda/emulated/*.cc)
  list(FILTER cuda_machine EXCLUDE REGEX "(_test|/lt)\\.cc$")
  set(told)
  if(PHALANX_SANITIZE MATCHES "thread")
    set(told PHALANX_TELL_TSAN)
  elseif(PHALANX_SANITIZE MATCHES "address")
    set(told PHALANX_TELL_ASAN)
  endif()
  add_library(cuda_machine OBJECT ${cuda_machine})
  target_compile_definitions(cuda_machine PRIVATE ${told})
  target_compile_options(cuda_machine PRIVATE -fno-sanitize=all -O2 ${cuda_flags})
  target_link_libraries(cuda_machine PUBLIC phalanx_cuda PRIVATE phalanx_options)

  set_source_files_properties(${cuda_kernels} PROPERTIES LANGUAGE CXX)
  add_library(cuda_emulated STATIC $<TARGET_OBJECTS:cuda_machine> src/phalanx/cuda/emulated/lt.cc ${cuda_host} ${cuda_kernels})
  # Kernels have a million threads a second: unoptimised ones a quarter of it.
  target_compile_options(cuda_emulated PRIVATE ${cuda_flags} -O1)
  target_link_libraries(cuda_emulated PUBLIC phalanx_cuda phalanx_ops PRIVATE phalanx_options)

  # As the program opens it (ops/cuda_library.h).
  add_library(phalanx_cuda_emulated MODULE src/phalanx/ops/cuda/interface.cc)
  target_link_libraries(phalanx_cuda_emulated PRIVATE cuda_emulated phalanx_options)
  phalanx_cuda_object(phalanx_cuda_emulated)
  foreach(test ops_test planner_test selftest_test train_test)
    add_dependencies(${test} phalanx_cuda_emulated)
  endforeach()

  file(GLOB sources CONFIGURE_DEPENDS src/phalanx/ops/cuda/*_test.cc)
  phalanx_test(cuda_kernels_test ${sources} LIBS phalanx_ops phalanx_ops_reference)
  phalanx_test(cuda_checks_test src/phalanx/ops/cuda/check/checks_test.cc)
  foreach(test cuda_test cuda_kernels_test cuda_checks_test)
    target_compile_options(${test} PRIVATE ${cuda_flags})
    target_link_libraries(${test} PRIVATE cuda_emulated)
  endforeach()

  # Writes what a device must give.
  add_executable(record_digests EXCLUDE_FROM_ALL src/phalanx/ops/cuda/check/record_digests.cc)
  target_compile_options(record_digests PRIVATE ${cuda_flags})
  target_link_libraries(record_digests PRIVATE cuda_emulated phalanx_options)
  set_target_properties(record_digests PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endif()

find_program(PHALANX_NVCC nvcc HINTS /usr/local/cuda/bin)
if(NOT PHALANX_NVCC)
  message(STATUS "CUDA: no nvcc, libphalanx_cuda.a is not built (the emulated machine is)")
  return()
endif()
get_filename_component(cuda_toolkit ${PHALANX_NVCC} REALPATH)
get_filename_component(cuda_toolkit ${cuda_toolkit} DIRECTORY)
get_filename_component(cuda_toolkit ${cuda_toolkit} DIRECTORY)
set(PHALANX_CUDA_ARCHITECTURES "80;90a" CACHE STRING "Compute capabilities that kernels are compiled for")
set(gencode)
foreach(architecture ${PHALANX_CUDA_ARCHITECTURES})
  list(APPEND gencode -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
# For what comes later.
list(APPEND gencode -gencode arch=compute_80,code=compute_80)
# Contractions are written (fma_of), so that a value computed in two kernels has the same bits.
set(nvcc_flags -std=c++20 -O3 -fmad=false -ftz=true -prec-div=true -prec-sqrt=true --compress-mode=size
    -Werror all-warnings -Xcompiler -fPIC,-fvisibility=hidden,-ffp-contract=off)
set(device_objects)
foreach(source ${cuda_kernels})
  get_filename_component(stem ${source} NAME_WE)
  set(object ${CMAKE_BINARY_DIR}/cuda/${stem}.o)
  # Beside the object: what ptxas tells of registers and spills, and the PTX of all architectures, which tools/check-kernels reads.
  add_custom_command(
    OUTPUT ${object} ${object}.log ${object}.ptx
    COMMAND ${PROJECT_SOURCE_DIR}/cmake/compile-kernels ${object} ${PHALANX_NVCC} ${nvcc_flags} ${gencode} -Xptxas -v
            -I${PROJECT_SOURCE_DIR}/src -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/compile-kernels DEPFILE ${object}.d
    COMMENT "Compiling ${stem}.cu for devices" VERBATIM)
  list(APPEND device_objects ${object})
endforeach()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cuda)
# The kernels alone, without what launches them.
add_custom_target(cuda_kernels DEPENDS ${device_objects})
file(GLOB cuda_device CONFIGURE_DEPENDS src/phalanx/cuda/device/*.cc)
add_library(cuda_device_library STATIC EXCLUDE_FROM_ALL ${cuda_host} ${cuda_device} ${device_objects})
set_target_properties(cuda_device_library PROPERTIES OUTPUT_NAME phalanx_cuda LINKER_LANGUAGE CXX)
target_include_directories(cuda_device_library PUBLIC src)
target_include_directories(cuda_device_library SYSTEM PRIVATE ${cuda_toolkit}/include)
target_compile_options(cuda_device_library PRIVATE ${cuda_flags})
target_compile_definitions(cuda_device_library PRIVATE PHALANX_CUDA_TOOLKIT)
# What tools read of compile_commands.json are the flags of all other files.
set_target_properties(cuda_device_library PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
target_link_libraries(cuda_device_library PUBLIC fmt::fmt-header-only PRIVATE phalanx_options)
# As the program opens it.
add_library(phalanx_cuda_object MODULE EXCLUDE_FROM_ALL src/phalanx/ops/cuda/interface.cc)
target_compile_options(phalanx_cuda_object PRIVATE ${cuda_flags})
target_link_libraries(phalanx_cuda_object PRIVATE cuda_device_library phalanx_ops phalanx_options
                      ${cuda_toolkit}/lib64/libcudart_static.a ${CMAKE_DL_LIBS} Threads::Threads rt)
phalanx_cuda_object(phalanx_cuda_object)
set_target_properties(phalanx_cuda_object PROPERTIES OUTPUT_NAME phalanx_cuda EXPORT_COMPILE_COMMANDS OFF)
phalanx_portable(phalanx_cuda_object "$ORIGIN/..:$ORIGIN")
add_custom_target(cuda_device DEPENDS phalanx_cuda_object)
# Where it was built.
install(PROGRAMS ${CMAKE_BINARY_DIR}/libphalanx_cuda.so DESTINATION lib/phalanx COMPONENT cuda OPTIONAL)
