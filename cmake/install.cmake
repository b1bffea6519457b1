# `cmake --install`: the program, and the libraries with their headers for programs of others, who say
# find_package(phalanx) and link phalanx::phalanx.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The libraries, without what only tests and builds use.
get_property(installed DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
list(FILTER installed INCLUDE REGEX "^phalanx_")
list(FILTER installed EXCLUDE REGEX "^phalanx_(precompiled.*|.*_reference|ucx|library)$|_test$")
# A name for all of it.
add_library(phalanx_all INTERFACE)
target_link_libraries(phalanx_all INTERFACE phalanx_cli)
set_target_properties(phalanx_all PROPERTIES EXPORT_NAME phalanx)

install(TARGETS ${installed} phalanx_all EXPORT phalanx-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/phalanx)
install(TARGETS phalanx RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The program looks for it there.
install(TARGETS phalanx_ucx LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/phalanx)
install(DIRECTORY src/phalanx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# libphalanx.so, which programs in other languages link: phalanx::library, or pkg-config's phalanx.
set_target_properties(phalanx_library PROPERTIES EXPORT_NAME library)
install(TARGETS phalanx_library EXPORT phalanx-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/phalanx.pc.in ${CMAKE_BINARY_DIR}/phalanx.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/phalanx.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/phalanx)
install(EXPORT phalanx-targets NAMESPACE phalanx:: DESTINATION ${package})
configure_package_config_file(cmake/phalanx-config.cmake.in ${CMAKE_BINARY_DIR}/phalanx-config.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/phalanx-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/phalanx-config.cmake ${CMAKE_BINARY_DIR}/phalanx-config-version.cmake
        DESTINATION ${package})
