// Records: byte messages between processes of one program. Values are concatenated as in memory; the reader
// must know the types.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/tensor.h"

namespace tandem::tasks {

using Record = std::vector<std::byte>;

// Trivially copyable values without pointers.
template <class T>
concept Recordable = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;

class RecordWriter {
 public:
  template <Recordable T>
  RecordWriter& put(const T& value) {
    return append(&value, sizeof(T));
  }
  // With their number.
  template <Recordable T>
  RecordWriter& put_all(const std::vector<T>& values) {
    put(values.size());
    return append(values.data(), values.size() * sizeof(T));
  }
  RecordWriter& put_text(std::string_view text);
  // With its shape and dtype, from any device.
  RecordWriter& put_tensor(const Tensor& tensor);

  Record record() && { return std::move(bytes_); }

 private:
  RecordWriter& append(const void* from, std::size_t size);

  Record bytes_;
};

// Reads in the order of writing. Every function throws InternalError when the record ends early.
class RecordReader {
 public:
  // Keeps a reference to the bytes.
  explicit RecordReader(std::span<const std::byte> record) : left_(record) {}

  template <Recordable T>
  T take() {
    T value{};
    copy(&value, sizeof(T));
    return value;
  }
  template <Recordable T>
  std::vector<T> take_all() {
    std::vector<T> values(count_of(sizeof(T)));
    copy(values.data(), values.size() * sizeof(T));
    return values;
  }
  std::string take_text();
  // On the host.
  Tensor take_tensor();
  // Throws InternalError unless everything was read.
  void end() const;

 private:
  // The number of following values of `size` bytes.
  std::size_t count_of(std::size_t size);
  void copy(void* to, std::size_t size);

  std::span<const std::byte> left_;
};

}  // namespace tandem::tasks
