// Messages of Protocol Buffers, written field by field (https://protobuf.dev/programming-guides/encoding).
// The library's own serialiser gives the same bytes if the numbers of the fields ascend.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tandem::files {

class ProtobufMessage {
 public:
  ProtobufMessage& integer(int field, std::int64_t value);            // int32, int64, enum
  ProtobufMessage& real(int field, float value);                      // float
  ProtobufMessage& real(int field, double value);                     // double
  ProtobufMessage& reals(int field, std::span<const double> values);  // packed
  ProtobufMessage& bytes(int field, std::string_view value);          // string, bytes
  ProtobufMessage& message(int field, const ProtobufMessage& value) { return bytes(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value);
  void key(int field, unsigned wire_type);
  void raw(const void* data, std::size_t size);  // little-endian, as this machine has it

  std::string bytes_;
};

}  // namespace tandem::files
