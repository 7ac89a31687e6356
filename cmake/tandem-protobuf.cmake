# Protocol Buffers and SentencePiece in one program. SentencePiece's library exports a version of Protocol Buffers that it
# brings along; where a program exports another one, or takes some of it from there, it dies at its start. So that a program
# has exactly its own and exports none of it,
# - the archive is linked, before SentencePiece, and its symbols stay inside;
# - what includes generated headers is compiled with hidden symbols (TandemProtobuf.cmake).
# Included by the build and by the installed package alike.
if(NOT TARGET tandem::protobuf)
  find_library(TANDEM_PROTOBUF_ARCHIVE libprotobuf.a REQUIRED)
  find_library(TANDEM_SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
  find_library(TANDEM_SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train REQUIRED)
  mark_as_advanced(TANDEM_PROTOBUF_ARCHIVE TANDEM_SENTENCEPIECE_LIBRARY TANDEM_SENTENCEPIECE_TRAIN_LIBRARY)
  add_library(tandem::sentencepiece INTERFACE IMPORTED)
  set_target_properties(tandem::sentencepiece PROPERTIES INTERFACE_LINK_LIBRARIES
    "${TANDEM_SENTENCEPIECE_TRAIN_LIBRARY};${TANDEM_SENTENCEPIECE_LIBRARY}")
  add_library(tandem::protobuf STATIC IMPORTED)
  set_target_properties(tandem::protobuf PROPERTIES IMPORTED_LOCATION "${TANDEM_PROTOBUF_ARCHIVE}"
    INTERFACE_LINK_LIBRARIES "tandem::sentencepiece;ZLIB::ZLIB"
    INTERFACE_LINK_OPTIONS "LINKER:--exclude-libs,libprotobuf.a")
endif()
