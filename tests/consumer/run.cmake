# Installs the build into a scratch prefix, builds the consumer against it, and runs it.
# Arguments: -DBUILD=<build folder> -DSOURCE=<consumer folder> -DWORK=<scratch> -DGENERATOR=… -DFLAGS=… -DCOMPILER=…
file(REMOVE_RECURSE ${WORK})
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
     "-DCMAKE_PREFIX_PATH=${WORK}/prefix" "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCMAKE_EXE_LINKER_FLAGS=${FLAGS}")
step(${CMAKE_COMMAND} --build ${WORK}/build)
step(${WORK}/build/consumer)
message("${output}")
if(NOT output MATCHES "loss fell from [0-9.]+ to [0-9.]+")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()
# libgomp shows what it took; its own is 300000.
step(${CMAKE_COMMAND} -E env --unset=OMP_WAIT_POLICY --unset=GOMP_SPINCOUNT OMP_DISPLAY_ENV=verbose
     ${WORK}/build/consumer)
if(COMPILER STREQUAL "GNU" AND NOT output MATCHES "GOMP_SPINCOUNT = '[0-9][0-9][0-9][0-9]?[0-9]?'")
  message(FATAL_ERROR "the consumer's threads do not spin briefly: ${output}")
endif()
step(${WORK}/prefix/bin/tandem ls models)
if(NOT output MATCHES "resnet20")
  message(FATAL_ERROR "the installed program printed: ${output}")
endif()
