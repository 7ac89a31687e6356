# The levels of x86-64 that the CPU's kernels are compiled for (core/cpu/level.h). This is the one place that tells the
# compiler of instruction sets: everything is x86-64-v2, and what lies in core/cpu/kernels is compiled once more for each
# further level, as libtandem_cpu_<level>.so, which the program opens where the CPU has that level.

set(TANDEM_LEVELS native CACHE STRING
  "Levels to compile kernels for: all, native (this machine's own), or a list of v3, v4, v4_bf16; v2 is always there")

set(TANDEM_KERNELS "" CACHE PATH
  "Build folder of the same sources and levels whose kernels are taken as they are: for sanitizers that look at other code")

set(TANDEM_BASELINE_FLAGS -march=x86-64)  # of what refuses older CPUs
set(TANDEM_LEVEL_FLAGS_v2 -march=x86-64-v2)
set(TANDEM_LEVEL_FLAGS_v3 -march=x86-64-v3)
# 512-bit vectors pay on every CPU that has them at full width.
set(TANDEM_LEVEL_FLAGS_v4 -march=x86-64-v4 -mprefer-vector-width=512)
set(TANDEM_LEVEL_FLAGS_v4_bf16 ${TANDEM_LEVEL_FLAGS_v4} -mavx512bf16)

# The features that /proc/cpuinfo lists, for `native`.
function(tandem_native_level result)
  set(level v2)
  set(flags "")
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
  endif()
  separate_arguments(flags)
  foreach(next_and_needed "v3;avx2;fma;f16c;movbe;bmi1;bmi2;abm" "v4;avx512f;avx512bw;avx512cd;avx512dq;avx512vl"
                          "v4_bf16;avx512_bf16")
    list(POP_FRONT next_and_needed next)
    foreach(feature ${next_and_needed})
      if(NOT feature IN_LIST flags)
        set(${result} ${level} PARENT_SCOPE)
        return()
      endif()
    endforeach()
    set(level ${next})
  endforeach()
  set(${result} ${level} PARENT_SCOPE)
endfunction()

set(tandem_levels ${TANDEM_LEVELS})
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  set(tandem_levels v2)  # compiled without flags: the kernels in plain C++
  set(TANDEM_LEVEL_FLAGS_v2 "")
  set(TANDEM_BASELINE_FLAGS "")
elseif(TANDEM_LEVELS STREQUAL "all")
  set(tandem_levels v3 v4 v4_bf16)
elseif(TANDEM_LEVELS STREQUAL "native")
  tandem_native_level(tandem_levels)
endif()
list(REMOVE_ITEM tandem_levels v2)
foreach(level ${tandem_levels})
  if(NOT DEFINED TANDEM_LEVEL_FLAGS_${level})
    message(FATAL_ERROR "TANDEM_LEVELS: ${level} is no level; there are all, native, v2, v3, v4, v4_bf16")
  endif()
endforeach()
message(STATUS "Kernels for the levels v2 ${tandem_levels}")

# A library of sources compiled for one level, to be opened at run time. What inline functions of headers became in it,
# with this level's instructions, is never called from elsewhere: only C symbols that begin with tandem_ leave it.
function(tandem_level_module target level)
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE tandem_core OpenMP::OpenMP_CXX)
  target_compile_definitions(${target} PRIVATE TANDEM_LEVEL=${level})
  set(flags ${TANDEM_FLAGS})
  if(TANDEM_LEVEL_FLAGS_v2)
    list(REMOVE_ITEM flags ${TANDEM_LEVEL_FLAGS_v2})
  endif()
  target_compile_options(${target} PRIVATE ${flags} ${TANDEM_LEVEL_FLAGS_${level}})
  set(exports ${PROJECT_SOURCE_DIR}/cmake/level_module.map)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS ${exports} INSTALL_RPATH "$ORIGIN")
  target_link_options(${target} PRIVATE ${TANDEM_LINK_FLAGS} -Wl,--version-script=${exports})
endfunction()

# Kernels of v2, which are part of tandem_core. Compiled one by one, with TANDEM_UNITY, too: what takes time in them is their
# own code.
function(tandem_base_kernels)
  list(FILTER ARGN EXCLUDE REGEX "/library\\.cpp$")
  add_library(tandem_cpu_v2 OBJECT ${ARGN})
  target_include_directories(tandem_cpu_v2 PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(tandem_cpu_v2 PRIVATE fmt::fmt Eigen3::Eigen OpenMP::OpenMP_CXX DNNL::dnnl)
  target_compile_definitions(tandem_cpu_v2 PRIVATE TANDEM_LEVEL=v2)
  target_compile_options(tandem_cpu_v2 PRIVATE ${TANDEM_FLAGS} -fno-semantic-interposition)
  # Where the machine's own are compiled beside them and the program is to be there soon. norm_rows.cpp has a reduction whose
  # order is the optimiser's.
  if(TANDEM_UNITY AND TANDEM_LEVELS STREQUAL "native" AND tandem_levels)
    target_compile_options(tandem_cpu_v2 PRIVATE $<$<CONFIG:Release>:-O1> -Wno-maybe-uninitialized)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/core/cpu/kernels/norm_rows.cpp TARGET_DIRECTORY tandem_cpu_v2 PROPERTIES
      COMPILE_OPTIONS $<$<AND:$<CONFIG:Release>,$<STREQUAL:$<TARGET_PROPERTY:NAME>,tandem_cpu_v2>>:-O3>
      SKIP_PRECOMPILE_HEADERS ON)
  endif()
  tandem_precompile_kernels(tandem_cpu_v2)
  target_sources(tandem_core PRIVATE $<TARGET_OBJECTS:tandem_cpu_v2>)
endfunction()

# The kernels that TANDEM_KERNELS has.
function(tandem_take_kernels)
  foreach(source ${ARGN})
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${source})
    if(NOT name MATCHES "/library\\.cpp$")
      list(APPEND objects ${TANDEM_KERNELS}/CMakeFiles/tandem_cpu_v2.dir/${name}.o)
    endif()
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON)
  target_sources(tandem_core PRIVATE ${objects})
  foreach(level ${tandem_levels})
    file(CREATE_LINK ${TANDEM_KERNELS}/libtandem_cpu_${level}.so ${PROJECT_BINARY_DIR}/libtandem_cpu_${level}.so SYMBOLIC)
  endforeach()
endfunction()

# After tandem_core: its kernels, and the libraries of those of further levels; programs depend on tandem_cpu_levels, which
# stands for all.
function(tandem_kernels)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/cpu/kernels/*.cpp)
  add_custom_target(tandem_cpu_levels)
  if(TANDEM_KERNELS)
    tandem_take_kernels(${sources})
    return()
  endif()
  tandem_base_kernels(${sources})
  foreach(level ${tandem_levels})
    tandem_level_module(tandem_cpu_${level} ${level} ${sources})
    tandem_precompile_kernels(tandem_cpu_${level})
    add_dependencies(tandem_cpu_levels tandem_cpu_${level})
  endforeach()
endfunction()
