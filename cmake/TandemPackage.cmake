# `cpack -G DEB` in a build folder: one package of program, libraries, headers, CMake package, configs, digits, man page and
# completion (./run package configures such a folder).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tandem)
set(CPACK_PACKAGE_VENDOR "Tandem")
set(CPACK_PACKAGE_CONTACT "The developers of Tandem")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "deep learning in C++20 with mixed precision built in")
set(CPACK_PACKAGE_DESCRIPTION "Trains neural networks from a JSON file or from C++: classification of images and\n\
texts, segmentation, object detection, generative adversarial networks, language models and translation.\n\
Mixed precision in FP16 and BF16 with FP32 masters; runs that survive being killed; kernels for every x86-64 CPU from SSE4.2\n\
to AMX, chosen at start.")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${TANDEM_ONEDNN_HOME}/lib ${PROJECT_BINARY_DIR})
# What programs of others compile with.
string(JOIN ", " CPACK_DEBIAN_PACKAGE_SUGGESTS g++ cmake libeigen3-dev libfmt-dev nlohmann-json3-dev dataset-fashion-mnist
  openmpi-bin)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS OFF)
include(CPack)

if(TANDEM_PACKAGE)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  # The man page is what the program says of itself.
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/tandem.1.gz
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/package/manpage $<TARGET_FILE:tandem_program> ${PROJECT_BINARY_DIR}/tandem.1.gz
    DEPENDS tandem_program ${PROJECT_SOURCE_DIR}/package/manpage VERBATIM)
  add_custom_target(tandem_manpage ALL DEPENDS ${PROJECT_BINARY_DIR}/tandem.1.gz)
  install(FILES ${PROJECT_BINARY_DIR}/tandem.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES LICENSE THIRD_PARTY.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
endif()
install(FILES package/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tandem)
