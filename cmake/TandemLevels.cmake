# The levels of x86-64 that the CPU's kernels are compiled for (core/cpu/level.h). This is the one place that tells the
# compiler of instruction sets: everything is x86-64-v2, except core/cpu/kernels, which is compiled once for each level of the
# build into libtandem_cpu_<level>.so. The program opens the library of the best level that the CPU has.

set(TANDEM_LEVELS native CACHE STRING
  "Levels to compile kernels for: all, native (this machine's own), or a list of v2, v3, v4, v4_bf16")

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
  set(tandem_levels v2 v3 v4 v4_bf16)
elseif(TANDEM_LEVELS STREQUAL "native")
  tandem_native_level(tandem_levels)
endif()
foreach(level ${tandem_levels})
  if(NOT DEFINED TANDEM_LEVEL_FLAGS_${level})
    message(FATAL_ERROR "TANDEM_LEVELS: ${level} is no level; there are all, native, v2, v3, v4, v4_bf16")
  endif()
endforeach()
message(STATUS "Kernels for the levels ${tandem_levels}")

# A library of sources compiled for one level, to be opened at run time. What inline functions of headers became in it,
# with this level's instructions, is never called from elsewhere: only C symbols that begin with tandem_ leave it.
function(tandem_level_module target level)
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE tandem_nn OpenMP::OpenMP_CXX)
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

# The libraries of all levels. Programs depend on tandem_cpu_levels, which stands for all of them. With
# TANDEM_UNITY, too, their files are compiled one by one: most of the time goes to their own code.
function(tandem_kernels)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/cpu/kernels/*.cpp)
  add_custom_target(tandem_cpu_levels)
  foreach(level ${tandem_levels})
    if(TANDEM_KERNELS)
      file(CREATE_LINK ${TANDEM_KERNELS}/libtandem_cpu_${level}.so ${PROJECT_BINARY_DIR}/libtandem_cpu_${level}.so SYMBOLIC)
      continue()
    endif()
    tandem_level_module(tandem_cpu_${level} ${level} ${sources})
    target_link_libraries(tandem_cpu_${level} PRIVATE Eigen3::Eigen DNNL::dnnl)
    tandem_precompile_kernels(tandem_cpu_${level})
    add_dependencies(tandem_cpu_levels tandem_cpu_${level})
  endforeach()
endfunction()
