# `cmake --install`: headers, libraries, the program, configs and small data, and a package for find_package(tandem).
include(CMakePackageConfigHelpers)

# tandem::tandem stands for all layers.
add_library(tandem_all INTERFACE)
set_target_properties(tandem_all PROPERTIES EXPORT_NAME tandem)
add_library(tandem::tandem ALIAS tandem_all)
foreach(layer ${TANDEM_LAYERS})
  target_link_libraries(tandem_all INTERFACE tandem_${layer})
  list(APPEND targets tandem_${layer})
endforeach()
# include/tandem/core/error.h and so on, and include/tandem.h.
list(JOIN TANDEM_LAYERS "," joined)
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" -DSOURCE=${PROJECT_SOURCE_DIR} -DLAYERS=${joined}
  \"-DINCLUDE=\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\" -P ${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake
  COMMAND_ERROR_IS_FATAL ANY)")

set(TANDEM_ONEDNN_HOME ${TANDEM_DEPS}/onednn)
if(TANDEM_DEPS AND EXISTS ${TANDEM_ONEDNN_HOME})
  install(DIRECTORY ${TANDEM_ONEDNN_HOME}/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/tandem/onednn)
endif()
file(RELATIVE_PATH libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})  # from the program's folder
set_target_properties(tandem_program PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries};$ORIGIN/${libraries}/tandem/onednn/lib")

install(TARGETS ${targets} tandem_all EXPORT tandem-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS tandem_short_spin EXPORT tandem-targets OBJECTS DESTINATION ${CMAKE_INSTALL_LIBDIR}/tandem)
foreach(level ${tandem_levels})
  if(TARGET tandem_cpu_${level})
    install(TARGETS tandem_cpu_${level} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
if(TARGET tandem_cuda)
  install(TARGETS tandem_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS tandem_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/digits ${PROJECT_SOURCE_DIR}/data/classifiers
  DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem/data OPTIONAL)
install(EXPORT tandem-targets NAMESPACE tandem:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tandem-config.cmake.in
  ${PROJECT_BINARY_DIR}/tandem-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandem-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandem-config.cmake ${PROJECT_BINARY_DIR}/tandem-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/tandem-protobuf.cmake ${PROJECT_SOURCE_DIR}/cmake/tandem-utf8proc.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
