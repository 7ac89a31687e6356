# Installs the public headers below include/tandem, where no other project's can be: what the tree includes as
# "core/error.h" is included as "tandem/core/error.h" there. Part of cmake_install.cmake, with
# SOURCE (tree), INCLUDE (folder, relative to the prefix or absolute) and LAYERS (folders).
cmake_path(ABSOLUTE_PATH INCLUDE BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
string(REPLACE ";" "|" folders "${LAYERS}")

# A file that is the same stays, so that its users are not compiled again.
function(tandem_install_header name text)
  set(target "$ENV{DESTDIR}${INCLUDE}/${name}")
  set(before "")
  if(EXISTS ${target})
    file(READ ${target} before)
  endif()
  if(NOT "${text}" STREQUAL "${before}")
    file(WRITE ${target} "${text}")
  endif()
  set(CMAKE_INSTALL_MANIFEST_FILES ${CMAKE_INSTALL_MANIFEST_FILES} "${INCLUDE}/${name}" PARENT_SCOPE)
endfunction()

set(headers "${SOURCE}/tandem.h")
foreach(layer ${LAYERS})
  file(GLOB_RECURSE found ${SOURCE}/${layer}/*.h)
  list(APPEND headers ${found})
endforeach()
foreach(header ${headers})
  file(RELATIVE_PATH name ${SOURCE} ${header})
  file(READ ${header} text)
  string(REGEX REPLACE "(#[ ]*include )\"(${folders})/" "\\1\"tandem/\\2/" text "${text}")
  tandem_install_header(tandem/${name} "${text}")
endforeach()
tandem_install_header(tandem.h "#pragma once\n#include \"tandem/tandem.h\"\n")
