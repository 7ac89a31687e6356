// Messages of Protocol Buffers against bytes from https://protobuf.dev/programming-guides/encoding.
#include "files/protobuf.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace std::string_literals;
using tandem::files::ProtobufMessage;

TEST_CASE("fields of a message have the bytes of the specification", "[protobuf]") {
  CHECK(ProtobufMessage().integer(1, 150).bytes() == "\x08\x96\x01");
  CHECK(ProtobufMessage().integer(1, 0).bytes() == "\x08\x00"s);
  CHECK(ProtobufMessage().integer(1, -2).bytes() == "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  CHECK(ProtobufMessage().integer(20, 1).bytes() == "\xa0\x01\x01");
  CHECK(ProtobufMessage().bytes(2, "testing").bytes() == "\x12\x07testing");
  CHECK(ProtobufMessage().message(3, ProtobufMessage().integer(1, 150)).bytes() == "\x1a\x03\x08\x96\x01");
  CHECK(ProtobufMessage().real(2, 1.0F).bytes() == "\x15\x00\x00\x80\x3f"s);
  CHECK(ProtobufMessage().real(2, 1.0).bytes() == "\x11\x00\x00\x00\x00\x00\x00\xf0\x3f"s);
  CHECK(ProtobufMessage().reals(6, std::vector{1.0}).bytes() == "\x32\x08\x00\x00\x00\x00\x00\x00\xf0\x3f"s);
  const std::string long_text(300, 'x');
  CHECK(ProtobufMessage().bytes(1, long_text).integer(2, 1).bytes() ==
        "\x0a\xac\x02" + long_text + "\x10\x01");
}
