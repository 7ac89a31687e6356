# tandem_library(<folder> [SHARED] [<layer>...]): one library of every .cpp below the folder, static unless SHARED, on
# top of the given layers. Adding a file needs no edit here.

include(CheckCXXCompilerFlag)
set(TANDEM_FLAGS -Wall -Wextra -Wpedantic)
check_cxx_compiler_flag(-Wshadow=local TANDEM_HAS_SHADOW_LOCAL)
if(TANDEM_HAS_SHADOW_LOCAL)
  list(APPEND TANDEM_FLAGS -Wshadow=local)
endif()
list(APPEND TANDEM_FLAGS -Wnon-virtual-dtor -Woverloaded-virtual
     -Wno-missing-field-initializers)  # designated initialisers leave the rest to its default
# Clang warns of every loop that a sanitizer keeps from being vectorised.
check_cxx_compiler_flag(-Wpass-failed TANDEM_HAS_PASS_FAILED)
if(TANDEM_HAS_PASS_FAILED)
  list(APPEND TANDEM_FLAGS -Wno-pass-failed)
endif()
if(TANDEM_WERROR)
  list(APPEND TANDEM_FLAGS -Werror)
endif()
if(TANDEM_NATIVE)
  list(APPEND TANDEM_FLAGS -march=native)
endif()
# 512-bit vectors pay on every CPU that has them at full width; IEEE semantics stay (no -ffast-math), but products and
# sums may contract to fused multiply-adds.
check_cxx_compiler_flag(-mprefer-vector-width=512 TANDEM_HAS_VECTOR_WIDTH)
if(TANDEM_NATIVE AND TANDEM_HAS_VECTOR_WIDTH)
  list(APPEND TANDEM_FLAGS -mprefer-vector-width=512)
endif()
list(APPEND TANDEM_FLAGS -fno-math-errno -fno-trapping-math)
# GCC 12.2 folds some constant arrays wrongly when basic-block vectorisation meets AVX-512: at -O2,
# std::vector<int>{255,0,255,0,0,0,0,0} comes out as 255 0 255 0 255 0 255 0. Loops are vectorised all the same.
list(APPEND TANDEM_FLAGS -fno-tree-slp-vectorize)
# GCC 12 sees overlaps in std::string where there are none (GCC bug 105651).
check_cxx_compiler_flag(-Wrestrict TANDEM_HAS_RESTRICT)
if(TANDEM_HAS_RESTRICT)
  set(TANDEM_TEST_FLAGS -Wno-restrict)
endif()
set(TANDEM_LINK_FLAGS "")
if(TANDEM_SANITIZE)
  list(APPEND TANDEM_FLAGS -fsanitize=${TANDEM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  list(APPEND TANDEM_LINK_FLAGS -fsanitize=${TANDEM_SANITIZE})
endif()

# The layers that read outside bytes, whose branches steer a fuzzer (tests/fuzz).
set(TANDEM_FUZZED_LAYERS files data models optim config runs tasks train export studies)

function(tandem_library folder)
  cmake_parse_arguments(ARG "SHARED" "" "" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$|/core/cuda/|/core/cpu/short_spin\\.cpp$")
  set(target tandem_${folder})
  set(kind STATIC)
  if(ARG_SHARED)
    set(kind SHARED)
  endif()
  add_library(${target} ${kind} ${sources})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/tandem>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE ${TANDEM_FLAGS})
  if(TANDEM_FUZZ AND folder IN_LIST TANDEM_FUZZED_LAYERS)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  target_link_options(${target} INTERFACE ${TANDEM_LINK_FLAGS})
  foreach(layer ${ARG_UNPARSED_ARGUMENTS})
    target_link_libraries(${target} PUBLIC tandem_${layer})
  endforeach()
endfunction()
