#include "tasks/record.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace tandem::tasks {

namespace {

constexpr const char* kRecord = "record";

}  // namespace

RecordWriter& RecordWriter::append(const void* from, std::size_t size) {
  const auto* const bytes = static_cast<const std::byte*>(from);
  bytes_.insert(bytes_.end(), bytes, bytes + size);
  return *this;
}

RecordWriter& RecordWriter::put_text(std::string_view text) {
  put(text.size());
  return append(text.data(), text.size());
}

RecordWriter& RecordWriter::put_tensor(const Tensor& tensor) {
  const Tensor host = tensor.to(Device{});
  std::vector<Index> sizes;
  for (int axis = 0; axis < host.rank(); ++axis) sizes.push_back(host.size(axis));
  put(host.dtype()).put_all(sizes).put(host.bytes());
  return append(host.raw(), host.bytes());
}

std::string RecordReader::take_text() {
  std::string text(count_of(1), '\0');
  copy(text.data(), text.size());
  return text;
}

Tensor RecordReader::take_tensor() {
  const auto dtype = take<DType>();
  const Shape shape{std::span<const Index>(take_all<Index>())};
  const std::size_t bytes = count_of(1);
  ensure(bytes == static_cast<std::size_t>(shape.numel()) * size_of(dtype), kRecord,
         "{} bytes of a tensor {}{}", bytes, name_of(dtype), to_string(shape));
  const Tensor tensor = Tensor::empty(shape, {.dtype = dtype, .kind = MemoryKind::data});
  copy(tensor.raw(), bytes);
  return tensor;
}

void RecordReader::end() const { ensure(left_.empty(), kRecord, "{} bytes are left", left_.size()); }

std::size_t RecordReader::count_of(std::size_t size) {
  const auto count = take<std::size_t>();
  ensure(count <= left_.size() / size, kRecord, "{} values of {} bytes, but {} bytes are left", count, size,
         left_.size());
  return count;
}

void RecordReader::copy(void* to, std::size_t size) {
  ensure(size <= left_.size(), kRecord, "{} bytes requested, but {} are left", size, left_.size());
  if (size > 0) std::memcpy(to, left_.data(), size);
  left_ = left_.subspan(size);
}

}  // namespace tandem::tasks
