// Radix sort of pairs by CUB, for 32- and 64-bit words.
#include <cuda_runtime.h>

#include <cstdint>
#include <cub/device/device_radix_sort.cuh>

#include "core/cuda/launch.h"
#include "core/cuda/sort.h"

namespace tandem::cuda {

namespace {

template <class Word, class Count>
SortedPairs sort_words(const CudaBackend& backend, const Tensor& keys, const Tensor& values, int bits) {
  const Tensor other_keys = backend.workspace(keys.shape(), keys.dtype());
  const Tensor other_values = backend.workspace(values.shape(), values.dtype());
  const auto words = [](const Tensor& tensor) { return static_cast<Word*>(tensor.raw()); };
  cub::DoubleBuffer<Word> key_buffers(words(keys), words(other_keys));
  cub::DoubleBuffer<Word> value_buffers(words(values), words(other_values));
  const auto sort = [&](void* room, std::size_t& bytes) {
    check(cub::DeviceRadixSort::SortPairs(room, bytes, key_buffers, value_buffers,
                                          static_cast<Count>(keys.numel()), 0, bits, backend.stream()),
          "DeviceRadixSort");
  };
  std::size_t bytes = 0;
  sort(nullptr, bytes);
  const Tensor room = backend.workspace({static_cast<Index>(bytes)}, DType::u8);
  sort(room.raw(), bytes);
  return {key_buffers.selector == 0 ? keys : other_keys, value_buffers.selector == 0 ? values : other_values};
}

}  // namespace

SortedPairs sort_pairs(const CudaBackend& backend, const Tensor& keys, const Tensor& values, int bits) {
  if (bits == 0 || keys.numel() < 2) return {keys, values};
  return keys.dtype() == DType::i32 ? sort_words<std::uint32_t, std::uint32_t>(backend, keys, values, bits)
                                    : sort_words<std::uint64_t, std::int64_t>(backend, keys, values, bits);
}

}  // namespace tandem::cuda
