# tandem_nccl(<target>): compiles what speaks to NCCL (parallel/nccl) into a target, where nccl.h and the CUDA headers that it
# includes are there. Nothing is linked: the library is opened at run time, and a program without it says so when ranks are to
# be joined on GPUs.
find_path(TANDEM_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
          PATHS /usr/local/cuda/include ${TANDEM_DEPS}/nccl/include)
find_path(TANDEM_CUDA_INCLUDE_DIR cuda_runtime.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${TANDEM_NCCL_INCLUDE_DIR}
          PATHS /usr/local/cuda/include)

function(tandem_nccl target)
  set(version "")
  if(TANDEM_NCCL_INCLUDE_DIR AND TANDEM_CUDA_INCLUDE_DIR)
    # Communicators that do not block came with 2.14.
    file(STRINGS ${TANDEM_NCCL_INCLUDE_DIR}/nccl.h version REGEX "ncclCommInitRankConfig")
  endif()
  file(GLOB sources ${PROJECT_SOURCE_DIR}/parallel/nccl/*.cpp)
  if(version)
    target_compile_definitions(${target} PRIVATE TANDEM_NCCL)
    target_include_directories(${target} SYSTEM PRIVATE ${TANDEM_NCCL_INCLUDE_DIR} ${TANDEM_CUDA_INCLUDE_DIR})
    set(TANDEM_HAS_NCCL ON PARENT_SCOPE)
  else()
    message(STATUS "Ranks on GPUs are left out: there is no nccl.h of NCCL 2.14 or later")
    list(FILTER sources EXCLUDE REGEX "/open\\.cpp$")
    set_source_files_properties(${sources} PROPERTIES HEADER_FILE_ONLY ON)
  endif()
endfunction()
