# tandem_protobuf(<target> <file.proto>...): compiles messages into the target, which includes them by the path of the
# .proto with the ending .pb.h. Paths are relative to the source folder of the project.
find_package(Protobuf REQUIRED)

function(tandem_protobuf target)
  set(generated ${PROJECT_BINARY_DIR}/protobuf)
  file(MAKE_DIRECTORY ${generated})
  foreach(proto ${ARGN})
    string(REGEX REPLACE "\\.proto$" ".pb" stem ${proto})
    set(outputs ${generated}/${stem}.cc ${generated}/${stem}.h)
    add_custom_command(OUTPUT ${outputs}
      COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${generated} ${proto}
      DEPENDS ${PROJECT_SOURCE_DIR}/${proto} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
    # Generated code keeps to the generator's rules, not to this project's.
    set_source_files_properties(${generated}/${stem}.cc PROPERTIES COMPILE_OPTIONS -w)
    target_sources(${target} PRIVATE ${outputs})
  endforeach()
  target_include_directories(${target} SYSTEM PUBLIC $<BUILD_INTERFACE:${generated}>)
  target_link_libraries(${target} PRIVATE protobuf::libprotobuf)
endfunction()
