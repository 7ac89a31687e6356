// Stand-in for core/cuda/sort.h, like CUB's radix sort: by the given bits of the keys, stable, in two
// buffers.
#include "core/cuda/sort.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/cuda/emulator/library.h"

namespace tandem::cuda {

namespace {

template <class Word>
void sort_words(const void* keys, const void* values, void* sorted_keys, void* sorted_values, Index count,
                int bits) {
  const Word mask = bits >= static_cast<int>(8 * sizeof(Word)) ? ~Word(0) : (Word(1) << bits) - 1;
  std::vector<std::pair<Word, Word>> pairs(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i)
    pairs[static_cast<std::size_t>(i)] = {static_cast<const Word*>(keys)[i],
                                          static_cast<const Word*>(values)[i]};
  std::stable_sort(pairs.begin(), pairs.end(),
                   [mask](const auto& x, const auto& y) { return (x.first & mask) < (y.first & mask); });
  for (Index i = 0; i < count; ++i) {
    static_cast<Word*>(sorted_keys)[i] = pairs[static_cast<std::size_t>(i)].first;
    static_cast<Word*>(sorted_values)[i] = pairs[static_cast<std::size_t>(i)].second;
  }
}

}  // namespace

SortedPairs sort_pairs(const CudaBackend& backend, const Tensor& keys, const Tensor& values, int bits) {
  if (bits == 0 || keys.numel() < 2) return {keys, values};
  const Tensor other_keys = backend.workspace(keys.shape(), keys.dtype());
  const Tensor other_values = backend.workspace(values.shape(), values.dtype());
  const bool wide = keys.dtype() == DType::i64;
  // A pass sorts 8 bits and swaps the buffers.
  const bool back = (bits + 7) / 8 % 2 == 0;
  cuda_emulator::enqueue_library(
      backend.stream(), "DeviceRadixSort", "sort",
      [=, count = keys.numel(), k = keys.raw(), v = values.raw(), ok = other_keys.raw(),
       ov = other_values.raw()] {
        void *const result_keys = back ? k : ok, *const result_values = back ? v : ov;
        if (wide) {
          sort_words<std::uint64_t>(k, v, result_keys, result_values, count, bits);
        } else {
          sort_words<std::uint32_t>(k, v, result_keys, result_values, count, bits);
        }
        // The other buffers contain leftovers of an earlier pass.
        cuda_emulator::fill_with_nan(back ? ok : k, wide ? DType::f64 : DType::f32, count);
        cuda_emulator::fill_with_nan(back ? ov : v, wide ? DType::f64 : DType::f32, count);
      });
  return back ? SortedPairs{keys, values} : SortedPairs{other_keys, other_values};
}

}  // namespace tandem::cuda
