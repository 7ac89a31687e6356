# utf8proc, for which Debian has no CMake package. Included by the build and by the installed package alike.
if(NOT TARGET tandem::utf8proc)
  find_library(TANDEM_UTF8PROC_LIBRARY utf8proc REQUIRED)
  mark_as_advanced(TANDEM_UTF8PROC_LIBRARY)
  add_library(tandem::utf8proc INTERFACE IMPORTED)
  set_target_properties(tandem::utf8proc PROPERTIES INTERFACE_LINK_LIBRARIES "${TANDEM_UTF8PROC_LIBRARY}")
endif()
