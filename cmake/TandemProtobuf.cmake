# tandem_protobuf(<target> <file.proto>): compiles the messages of a .proto file, given relative to the project, into the
# target. "export/onnx.proto" is included as "export/onnx.pb.h", inside this project only: the package that is
# installed neither has nor needs the header, and protobuf is linked privately. Further arguments are the files of the
# target that include it, which are compiled as tandem-protobuf.cmake says.
find_package(Protobuf REQUIRED)
include(tandem-protobuf)
find_path(TANDEM_SENTENCEPIECE_INCLUDE_DIR sentencepiece_trainer.h REQUIRED)

function(tandem_protobuf target proto)
  set(root ${PROJECT_BINARY_DIR}/generated)
  string(REGEX REPLACE "\\.proto$" ".pb" stem ${root}/${proto})
  file(MAKE_DIRECTORY ${root})
  add_custom_command(
    OUTPUT ${stem}.cc ${stem}.h
    COMMAND protobuf::protoc --cpp_out ${root} --proto_path ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/${proto}
    DEPENDS ${PROJECT_SOURCE_DIR}/${proto} protobuf::protoc
    COMMENT "Compiling ${proto}" VERBATIM)
  # A target of its own waits for no layer below. What a generator writes is not held to the warnings of this project.
  add_library(${target}_messages OBJECT ${stem}.cc ${stem}.h)
  target_include_directories(${target}_messages PRIVATE ${root})
  target_compile_options(${target}_messages PRIVATE ${TANDEM_FLAGS} ${TANDEM_STEERING_FLAGS} -w
    -fvisibility=hidden)
  target_include_directories(${target}_messages SYSTEM PRIVATE ${Protobuf_INCLUDE_DIRS})
  add_dependencies(${target} ${target}_messages)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_messages>)
  target_include_directories(${target} SYSTEM PUBLIC $<BUILD_INTERFACE:${root}>)
  target_include_directories(${target} SYSTEM PRIVATE ${Protobuf_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE tandem::protobuf)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -fvisibility=hidden SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
