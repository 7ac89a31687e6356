# tandem_mpi(<target>): compiles what speaks to Open MPI (parallel/mpi) into a target, where mpi.h of Open MPI is there. Nothing
# is linked: the library is opened at run time, and a program without it says so when mpirun starts several of it.
find_path(TANDEM_MPI_INCLUDE_DIR mpi.h PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include)

function(tandem_mpi target)
  set(version "")
  if(TANDEM_MPI_INCLUDE_DIR)
    file(STRINGS ${TANDEM_MPI_INCLUDE_DIR}/mpi.h version REGEX "^#define OMPI_MAJOR_VERSION")
  endif()
  if(version)
    target_compile_definitions(${target} PRIVATE TANDEM_MPI)
    target_include_directories(${target} SYSTEM PRIVATE ${TANDEM_MPI_INCLUDE_DIR})
  else()
    message(STATUS "Ranks are left out: there is no mpi.h of Open MPI (Debian: libopenmpi-dev)")
    file(GLOB sources ${PROJECT_SOURCE_DIR}/parallel/mpi/*.cpp)
    list(FILTER sources EXCLUDE REGEX "/open\\.cpp$")
    set_source_files_properties(${sources} PROPERTIES HEADER_FILE_ONLY ON)
  endif()
endfunction()
