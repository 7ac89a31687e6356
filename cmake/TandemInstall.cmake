# `cmake --install`: headers, libraries, the program, configs and small data, and a package for find_package(tandem).
include(CMakePackageConfigHelpers)

# include/tandem/core/error.h and so on, and include/tandem.h.
install(CODE "set(SOURCE \"${PROJECT_SOURCE_DIR}\")
set(LAYERS \"${TANDEM_LAYERS}\")
set(INCLUDE \"${CMAKE_INSTALL_INCLUDEDIR}\")
include(\"${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake\")")

set(TANDEM_ONEDNN_HOME ${TANDEM_DEPS}/onednn)
if(TANDEM_DEPS AND EXISTS ${TANDEM_ONEDNN_HOME})
  install(DIRECTORY ${TANDEM_ONEDNN_HOME}/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/tandem/onednn)
endif()
file(RELATIVE_PATH libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})  # from the program's folder
set_target_properties(tandem_program PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries}")

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
foreach(component ${TANDEM_COMPONENTS})
  install(TARGETS tandem_${component} EXPORT tandem-${component} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT tandem-${component} FILE tandem-targets-${component}.cmake NAMESPACE tandem:: DESTINATION ${package})
endforeach()
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
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tandem-config.cmake.in
  ${PROJECT_BINARY_DIR}/tandem-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandem-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandem-config.cmake ${PROJECT_BINARY_DIR}/tandem-config-version.cmake DESTINATION ${package})
