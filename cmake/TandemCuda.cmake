# The CUDA backend: everything below core/cuda, for Ampere and Hopper, with PTX for what comes after, as a library that
# the program opens when a GPU is asked for (core/device_library.h). Compiling takes the CUDA toolkit with cuDNN 9 and
# the headers of cudnn-frontend, and no GPU.

if(TANDEM_CUDA STREQUAL "OFF" OR NOT TANDEM_CUDA)
  return()
endif()
if(TANDEM_CUDA STREQUAL "AUTO")
  include(CheckLanguage)
  check_language(CUDA)
  set(missing "")
  if(NOT CMAKE_CUDA_COMPILER)
    set(missing "a CUDA compiler")
  else()
    get_filename_component(cuda_home ${CMAKE_CUDA_COMPILER} REALPATH)
    get_filename_component(cuda_home ${cuda_home} DIRECTORY)
    find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${cuda_home}/../include ${cuda_home}/../targets/x86_64-linux/include)
    find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${TANDEM_DEPS}/cudnn-frontend/include)
    if(NOT CUDNN_INCLUDE_DIR)
      set(missing "cudnn.h")
    elseif(NOT CUDNN_FRONTEND_INCLUDE_DIR)
      set(missing "cudnn_frontend.h")
    endif()
  endif()
  if(missing)
    message(STATUS "The CUDA backend is not built: ${missing} was not found")
    return()
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES OFF)  # said for every file below
enable_language(CUDA)
# nvcc has had C++20 since 12.0; CMake 3.25 does not know it.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
find_package(CUDAToolkit REQUIRED)
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${TANDEM_DEPS}/cudnn-frontend/include REQUIRED)

file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/cuda/*.cu ${PROJECT_SOURCE_DIR}/core/cuda/*.cpp)
get_filename_component(cudnn_folder ${CUDNN_LIBRARY} DIRECTORY)
add_library(tandem_cuda_objects OBJECT ${cuda_sources})
target_include_directories(tandem_cuda_objects SYSTEM PUBLIC ${CUDNN_FRONTEND_INCLUDE_DIR} ${CUDNN_INCLUDE_DIR})
target_link_libraries(tandem_cuda_objects PUBLIC tandem_nn CUDA::cudart_static CUDA::cublasLt CUDA::nvrtc
                                                 CUDA::nvtx3 ${CUDNN_LIBRARY})
# nvcc is not on fmt's list of compilers with constexpr.
# cudnn-frontend compiles in half the time without its JSON forms of graphs.
target_compile_definitions(tandem_cuda_objects PUBLIC FMT_USE_CONSTEXPR=1 PRIVATE CUDNN_FRONTEND_SKIP_JSON_LIB)
set(TANDEM_CUDA_CODE sm_80,sm_90,compute_90 CACHE STRING "What nvcc makes of the kernels: machine code, and PTX for what comes after")
# Each architecture's code comes from its own PTX: kernels that start before the one before them has ended take instructions of
# compute_90 (core/cuda/launch.h), and CUB is tuned for the architecture that it is compiled for.
string(REPLACE "," ";" cuda_code "${TANDEM_CUDA_CODE}")
set(cuda_options)
foreach(number 80 90)
  set(code ${cuda_code})
  list(FILTER code INCLUDE REGEX "_${number}$")
  if(code)
    list(JOIN code "," code)
    list(APPEND cuda_options --generate-code=arch=compute_${number},code=[${code}])
  endif()
endforeach()
foreach(source ${cuda_sources})
  if(source MATCHES "\\.cu$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${cuda_options}")
  endif()
endforeach()
target_compile_options(tandem_cuda_objects PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --compress-mode=size -Xcompiler=-Wall,-Wextra> $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>)
if(TANDEM_WERROR)
  target_compile_options(tandem_cuda_objects PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Werror> $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
# One symbol leaves the library. CUDA's libraries are found where they were when it was linked, or on the loader's path.
set_target_properties(tandem_cuda_objects PROPERTIES CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON)
add_library(tandem_cuda MODULE)
target_link_libraries(tandem_cuda PRIVATE tandem_cuda_objects)
set_target_properties(tandem_cuda PROPERTIES LINKER_LANGUAGE CXX BUILD_RPATH "${CUDAToolkit_LIBRARY_DIR};${cudnn_folder}"
  INSTALL_RPATH "$ORIGIN;${CUDAToolkit_LIBRARY_DIR};${cudnn_folder}")
