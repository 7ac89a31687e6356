# tandem_layer(<folder> [<library>…]): compiles every .cpp below the folder, with the headers of the libraries, into the library
# of the folder's component (layers.txt). Adding a file needs no edit here.

include(CheckCXXCompilerFlag)
set(TANDEM_FLAGS -Wall -Wextra -Wpedantic -Wmissing-declarations)
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
# IEEE semantics stay (no -ffast-math), but products and sums may contract to fused multiply-adds.
list(APPEND TANDEM_FLAGS ${TANDEM_LEVEL_FLAGS_v2})
list(APPEND TANDEM_FLAGS -fno-math-errno -fno-trapping-math)
set(TANDEM_GCC12 OFF)  # workarounds for its bugs are for it alone
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(TANDEM_GCC12 ON)
  # It folds some constant arrays wrongly when basic-block vectorisation meets AVX-512: at -O2,
  # std::vector<int>{255,0,255,0,0,0,0,0} comes out as 255 0 255 0 255 0 255 0. Loops are vectorised all the same.
  list(APPEND TANDEM_FLAGS -fno-tree-slp-vectorize)
  # It sees overlaps in std::string where there are none (GCC bug 105651).
  set(TANDEM_TEST_FLAGS -Wno-restrict)
endif()
set(TANDEM_LINK_FLAGS "")
set(TANDEM_SANITIZE_FLAGS "")
if(TANDEM_SANITIZE)
  set(TANDEM_SANITIZE_FLAGS -fsanitize=${TANDEM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  list(APPEND TANDEM_LINK_FLAGS -fsanitize=${TANDEM_SANITIZE})
endif()
if(TANDEM_SANITIZE_ALL)
  list(APPEND TANDEM_FLAGS ${TANDEM_SANITIZE_FLAGS})
elseif(TANDEM_SANITIZE MATCHES undefined)
  # A third of the compiler's time, for pointers that AddressSanitizer follows, too.
  list(APPEND TANDEM_SANITIZE_FLAGS -fno-sanitize=null,alignment,object-size,vptr)
endif()

# Kernels, and the files that CMakeLists.txt names, have -O3. Layers that steer compile in two thirds of the time with -O1;
# -fexpensive-optimizations keeps products and sums contracting as they do elsewhere. The others have -O2. With
# sanitizers, layers that steer have -Og, which compiles faster; tests of the others would take longer than that saves.
set(TANDEM_STEERING_FLAGS $<$<CONFIG:Release>:-O1> $<$<CONFIG:Release>:-fexpensive-optimizations>
  $<$<CONFIG:RelWithDebInfo>:-Og>)

# With TANDEM_UNITY the files of a layer are one for the compiler, which then reads headers and instantiates templates once:
# quicker from nothing, slower after a change. Files with options of their own stay apart.
function(tandem_unity target)
  if(NOT TANDEM_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  # GCC takes every included file for a header, in which a type of an unnamed namespace would be many types.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    # The compiler collects no garbage below 4 GiB: less time for more memory, 2 GB for the largest layer.
    target_compile_options(${target} PRIVATE --param=ggc-min-heapsize=4194304)
  endif()
endfunction()

# With TANDEM_UNITY the kernels of a target, which stay files, share their headers precompiled: most are read in more time
# than their own code takes, and the code is the same. A compiler cache does not store what was compiled so, and a file cannot
# have another -O than such a header.
function(tandem_precompile_kernels target)
  if(TANDEM_UNITY AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/core/cpu/kernels/blocks.h
      ${PROJECT_SOURCE_DIR}/core/cpu/kernels/cpu_backend.h)
    # In a precompiled header GCC 12 forgets that its own intrinsics leave lanes undefined on purpose.
    if(TANDEM_GCC12)
      target_compile_options(${target} PRIVATE -Wno-uninitialized -Wno-maybe-uninitialized)
    endif()
  endif()
endfunction()

# Likewise for a target that steers, from files on: one precompiled header for all of them, which therefore have the same
# flags. A source that needs others reads its headers itself.
function(tandem_precompile_steering target folder)
  if(NOT TANDEM_UNITY OR TANDEM_FUZZ OR CMAKE_CXX_COMPILER_LAUNCHER OR folder STREQUAL "nn")  # nn stands below files
    return()
  endif()
  target_compile_options(${target} PRIVATE ${OpenMP_CXX_FLAGS})
  if(folder STREQUAL "files")
    target_precompile_headers(${target} PRIVATE <algorithm> <cmath> <filesystem> <functional> <map> <memory> <optional>
      <span> <string> <vector> <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp> ${PROJECT_SOURCE_DIR}/core/error.h
      ${PROJECT_SOURCE_DIR}/core/tensor.h ${PROJECT_SOURCE_DIR}/core/options/registry.h)
  else()
    target_precompile_headers(${target} REUSE_FROM layer_files)
  endif()
endfunction()

# The libraries that are installed: libtandem.so, and one more for each further component, which links those before it and no
# symbol elsewhere. Calls within a library are direct; data, type information among it, is one in the process.
set(below "")
foreach(component ${TANDEM_COMPONENTS})
  set(target tandem_${component})
  add_library(${target} SHARED)
  add_library(tandem::${component} ALIAS ${target})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PUBLIC ${below} fmt::fmt Eigen3::Eigen nlohmann_json::nlohmann_json)
  target_link_options(${target} PRIVATE -Wl,-Bsymbolic-functions,--as-needed INTERFACE ${TANDEM_LINK_FLAGS})
  if(NOT TANDEM_SANITIZE)  # a sanitizer's runtime is the program's
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component} VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} INSTALL_RPATH "$ORIGIN;$ORIGIN/tandem/onednn/lib")
  set(below ${target})
endforeach()
set_target_properties(tandem_nn PROPERTIES OUTPUT_NAME tandem)
add_library(tandem::tandem ALIAS ${below})

function(tandem_layer folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$|/core/cuda/|/core/cpu/kernels/")
  set(target layer_${folder})
  add_library(${target} OBJECT ${sources})
  target_link_libraries(tandem_${TANDEM_COMPONENT_${folder}} PRIVATE ${target})
  target_link_libraries(${target} PRIVATE fmt::fmt Eigen3::Eigen nlohmann_json::nlohmann_json ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE ${TANDEM_FLAGS} ${TANDEM_SANITIZE_FLAGS})
  if("steers" IN_LIST TANDEM_FACTS_${folder})
    target_compile_options(${target} PRIVATE ${TANDEM_STEERING_FLAGS})
    tandem_precompile_steering(${target} ${folder})
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O2>)
  endif()
  tandem_unity(${target})
  if(TANDEM_FUZZ AND "parses" IN_LIST TANDEM_FACTS_${folder})
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
