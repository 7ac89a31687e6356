# `cmake --install`: headers, libraries, the program, configs and small data, and a package for find_package(tandem).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(layers core files data autograd nn models optim amp parallel config runs tasks train report export studies cli)

# tandem::tandem stands for all layers.
add_library(tandem_all INTERFACE)
set_target_properties(tandem_all PROPERTIES EXPORT_NAME tandem)
add_library(tandem::tandem ALIAS tandem_all)
foreach(layer ${layers})
  target_link_libraries(tandem_all INTERFACE tandem_${layer})
  list(APPEND targets tandem_${layer})
endforeach()
# include/tandem/core/error.h and so on, and include/tandem.h.
list(JOIN layers "," joined)
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" -DSOURCE=${PROJECT_SOURCE_DIR} -DLAYERS=${joined}
  \"-DINCLUDE=\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/include\" -P ${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake
  COMMAND_ERROR_IS_FATAL ANY)")

set(TANDEM_ONEDNN_HOME ${PROJECT_SOURCE_DIR}/.deps/onednn)
if(EXISTS ${TANDEM_ONEDNN_HOME})
  install(DIRECTORY ${TANDEM_ONEDNN_HOME}/ DESTINATION lib/tandem/onednn)
endif()
set_target_properties(tandem_program PROPERTIES INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/../lib/tandem/onednn/lib")

install(TARGETS ${targets} tandem_all EXPORT tandem-targets ARCHIVE DESTINATION lib LIBRARY DESTINATION lib)
install(TARGETS tandem_short_spin EXPORT tandem-targets OBJECTS DESTINATION lib/tandem)
foreach(level ${tandem_levels})
  install(TARGETS tandem_cpu_${level} LIBRARY DESTINATION lib)
endforeach()
if(TARGET tandem_cuda)
  install(TARGETS tandem_cuda LIBRARY DESTINATION lib)
endif()
install(TARGETS tandem_program RUNTIME DESTINATION bin)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION share/tandem)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/digits ${PROJECT_SOURCE_DIR}/data/classifiers
  DESTINATION share/tandem/data OPTIONAL)
install(EXPORT tandem-targets NAMESPACE tandem:: DESTINATION lib/cmake/tandem)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tandem-config.cmake.in
  ${PROJECT_BINARY_DIR}/tandem-config.cmake INSTALL_DESTINATION lib/cmake/tandem)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandem-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandem-config.cmake ${PROJECT_BINARY_DIR}/tandem-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/tandem-protobuf.cmake ${PROJECT_SOURCE_DIR}/cmake/tandem-utf8proc.cmake DESTINATION lib/cmake/tandem)
