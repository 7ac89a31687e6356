#include "files/protobuf.h"

#include <bit>

namespace tandem::files {

namespace {
static_assert(std::endian::native == std::endian::little, "fixed-size fields are little-endian");
constexpr unsigned kVarint = 0, kFixed64 = 1, kSized = 2, kFixed32 = 5;
}  // namespace

void ProtobufMessage::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void ProtobufMessage::key(int field, unsigned wire_type) {
  varint(static_cast<std::uint64_t>(field) << 3 | wire_type);
}

void ProtobufMessage::raw(const void* data, std::size_t size) {
  bytes_.append(static_cast<const char*>(data), size);
}

ProtobufMessage& ProtobufMessage::integer(int field, std::int64_t value) {
  key(field, kVarint);
  varint(static_cast<std::uint64_t>(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::real(int field, float value) {
  key(field, kFixed32);
  raw(&value, sizeof value);
  return *this;
}

ProtobufMessage& ProtobufMessage::real(int field, double value) {
  key(field, kFixed64);
  raw(&value, sizeof value);
  return *this;
}

ProtobufMessage& ProtobufMessage::reals(int field, std::span<const double> values) {
  return bytes(field, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

ProtobufMessage& ProtobufMessage::bytes(int field, std::string_view value) {
  key(field, kSized);
  varint(value.size());
  raw(value.data(), value.size());
  return *this;
}

}  // namespace tandem::files
