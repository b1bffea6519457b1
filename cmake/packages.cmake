# Debian packages, which tools/make-packages asks CPack for: phalanx (component program), phalanx-dev (c_interface and families),
# and where it is asked for, phalanx-cuda.
option(PHALANX_CUDA_PACKAGE "Packages have libphalanx_cuda.so: target cuda_device is built" OFF)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME phalanx)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Phalanx <phalanx@localhost>")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS ${CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS})

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME phalanx)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
    "trains Transformer language models
Phalanx trains GPT, Llama, BERT and T5 models on CPUs with the methods and
the flags of Megatron-LM: tensor, sequence, pipeline and data parallelism,
ZeRO, and states on disk. It plans the memory of a run before it starts, and
generates text from what was trained.

This package has the program, and the library of its C interface.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME phalanx-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# The static libraries are linked with these.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "phalanx (= ${PROJECT_VERSION}), g++, pkg-config, libfmt-dev, libhwy-dev, libicu-dev, libpcre2-dev, libprotobuf-dev, \
libsimdjson-dev, libspdlog-dev, libssl-dev, liburing-dev, libxxhash-dev, libyaml-cpp-dev, libzstd-dev, zlib1g-dev")
set(CPACK_COMPONENT_C_INTERFACE_GROUP development)
set(CPACK_COMPONENT_FAMILIES_GROUP development)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "headers and libraries of Phalanx
For programs that use Phalanx by its C interface (phalanx.h, pkg-config), and
for model families of your own in C++ (CMake's find_package(phalanx)).")
set(CPACK_COMPONENTS_ALL program c_interface families)
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME phalanx-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "phalanx (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_CUDA_DESCRIPTION
    "kernels of Phalanx for NVIDIA GPUs
What phalanx --device cuda opens. It needs the driver, and cuBLASLt from
NVIDIA's packages.")
if(PHALANX_CUDA_PACKAGE)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
include(CPack)
