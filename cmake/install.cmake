# `cmake --install` and packages (CPack), in four components:
#   program      the program, the C interface's library, pages of the manual, completion, documentation, examples
#   c_interface  what programs in C and other languages are built with: the header, the link to the library, phalanx.pc
#   cuda         libphalanx_cuda.so, where nvcc has compiled it (cmake/cuda.cmake)
#   families     headers and libraries for model families of others, who say find_package(phalanx) and link phalanx::phalanx

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Packages for any distribution have libraries beside them, and find them from where they lie. DT_RPATH, not DT_RUNPATH:
# libraries of a bundled library are found too, and LD_LIBRARY_PATH of a cluster's modules does not replace them.
option(PHALANX_PORTABLE "The installed program finds its libraries in ../lib" OFF)
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
    WORLD_EXECUTE)

# phalanx_portable(TARGET PATH): where an installed TARGET looks for libraries, seen from its own folder.
function(phalanx_portable target path)
  if(PHALANX_PORTABLE)
    set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${path}")
    target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
  endif()
endfunction()

# The libraries, without what only tests and builds use.
get_property(installed DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
list(FILTER installed INCLUDE REGEX "^phalanx_")
list(FILTER installed EXCLUDE REGEX "^phalanx_(precompiled.*|ucx|library)$|_test$")
# A name for all of it.
add_library(phalanx_all INTERFACE)
target_link_libraries(phalanx_all INTERFACE phalanx_cli)
set_target_properties(phalanx_all PROPERTIES EXPORT_NAME phalanx)

install(TARGETS ${installed} phalanx_all EXPORT phalanx-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/phalanx
        COMPONENT families)
file(STRINGS cmake/installed_headers.txt headers REGEX "^phalanx/")
foreach(header ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT families)
endforeach()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/phalanx)
install(EXPORT phalanx-targets NAMESPACE phalanx:: DESTINATION ${package} COMPONENT families)
configure_package_config_file(cmake/phalanx-config.cmake.in ${CMAKE_BINARY_DIR}/phalanx-config.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/phalanx-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/phalanx-config.cmake ${CMAKE_BINARY_DIR}/phalanx-config-version.cmake
        DESTINATION ${package} COMPONENT families)

install(TARGETS phalanx RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
phalanx_portable(phalanx "$ORIGIN/../lib")
# The program looks for it in ../lib/phalanx, whatever the system calls its folder of libraries.
install(TARGETS phalanx_ucx LIBRARY DESTINATION lib/phalanx COMPONENT program)
phalanx_portable(phalanx_ucx "$ORIGIN/..:$ORIGIN")

# libphalanx.so, which programs in other languages link: phalanx::library, or pkg-config's phalanx. Its name with a version is
# for programs that run, the plain one for the linker.
set_target_properties(phalanx_library PROPERTIES EXPORT_NAME library)
install(TARGETS phalanx_library EXPORT phalanx-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT program
        NAMELINK_COMPONENT c_interface)
phalanx_portable(phalanx_library "$ORIGIN")
install(FILES src/phalanx/library/phalanx.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/phalanx/library COMPONENT c_interface)
file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/phalanx.pc.in ${CMAKE_BINARY_DIR}/phalanx.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/phalanx.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT c_interface)

# What the program says of itself: pages of the manual and completion.
set(pages ${CMAKE_BINARY_DIR}/pages)
add_custom_command(
  OUTPUT ${pages}/made
  COMMAND ${CMAKE_COMMAND} -D PHALANX=$<TARGET_FILE:phalanx> -D OUTPUT=${pages} -P ${PROJECT_SOURCE_DIR}/cmake/write_pages.cmake
  DEPENDS phalanx ${PROJECT_SOURCE_DIR}/cmake/write_pages.cmake ${PROJECT_SOURCE_DIR}/CHANGELOG.md VERBATIM)
add_custom_target(phalanx_pages ALL DEPENDS ${pages}/made)
install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
# Where shells look for completion: Debian keeps a folder apart from what users install.
set(completion_zsh share/zsh/site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(completion_zsh share/zsh/vendor-completions)
endif()
install(FILES ${pages}/phalanx.bash DESTINATION share/bash-completion/completions RENAME phalanx COMPONENT program)
install(FILES ${pages}/phalanx.zsh DESTINATION ${completion_zsh} RENAME _phalanx COMPONENT program)
install(FILES ${pages}/phalanx.fish DESTINATION share/fish/vendor_completions.d COMPONENT program)
set(documentation share/doc/phalanx)
install(FILES packaging/copyright ${pages}/changelog.gz README.md LICENSE SECURITY.md DESTINATION ${documentation}
        COMPONENT program)
install(FILES packaging/copyright DESTINATION share/doc/phalanx-dev COMPONENT c_interface)
install(DIRECTORY docs examples DESTINATION ${documentation} COMPONENT program
        FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
        PATTERN "*.sh" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE
        PATTERN "run" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

include(cmake/packages.cmake)
