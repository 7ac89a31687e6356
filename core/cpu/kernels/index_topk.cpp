// Top-k selection and sorting along an axis. Elements are ordered by (value, index), so every result is
// stable; NaN is the largest value and the two zeros are equal.
//
// Values of up to 32 bits become order-preserving integers, packed above their index into one 64-bit key, so
// that the sort compares integers.
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/index.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

template <class T>
inline constexpr bool is_packed_v = sizeof(T) <= 4;

// Order-preserving mapping of values to integers.
template <class T>
std::uint32_t ordered_bits(T stored) {
  if constexpr (is_16bit_v<T> || std::is_same_v<T, float>) {
    const float value = convert<float>(stored) + 0.0f;  // -0 becomes +0
    if (std::isnan(value)) return 0xffffffffu;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  } else {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(stored)) ^ 0x80000000u;
  }
}

// Partial sort: the first k of `keys`, in order, move to the front.
template <class Keys, class Less>
void order_first(Keys& keys, Index k, Less less) {
  const auto middle = keys.begin() + k;
  const auto count = static_cast<Index>(keys.size());
  if (k == count) {
    std::sort(keys.begin(), keys.end(), less);
  } else if (k <= count / 16) {
    std::partial_sort(keys.begin(), middle, keys.end(), less);
  } else {
    std::nth_element(keys.begin(), middle, keys.end(), less);
    std::sort(keys.begin(), middle, less);
  }
}

// Writes the positions of the first k elements of a line.
template <class T>
void order_line(const T* x, Index count, Index stride, Index k, bool largest,
                std::vector<std::uint64_t>& keys, Index* order) {
  if constexpr (is_packed_v<T>) {
    if (count <= Index{0xffffffff}) {
      keys.resize(static_cast<std::size_t>(count));
      const std::uint32_t flip = largest ? 0xffffffffu : 0u;
      for (Index i = 0; i < count; ++i) {
        keys[static_cast<std::size_t>(i)] =
            std::uint64_t{ordered_bits(x[i * stride]) ^ flip} << 32 | static_cast<std::uint64_t>(i);
      }
      order_first(keys, k, std::less<>{});
      for (Index i = 0; i < k; ++i)
        order[i] = static_cast<Index>(keys[static_cast<std::size_t>(i)] & 0xffffffffu);
      return;
    }
  }
  using C = ComputeType<T>;
  std::vector<std::pair<C, Index>> pairs(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) pairs[static_cast<std::size_t>(i)] = {convert<C>(x[i * stride]), i};
  const auto below = [](C a, C b) {  // NaN is the largest
    if constexpr (std::is_floating_point_v<C>) {
      if (std::isnan(a) || std::isnan(b)) return !std::isnan(a);
    }
    return a < b;
  };
  const auto same = [](C a, C b) {
    if constexpr (std::is_floating_point_v<C>) {
      if (std::isnan(a) && std::isnan(b)) return true;
    }
    return a == b;
  };
  order_first(pairs, k, [&](const auto& a, const auto& b) {
    if (same(a.first, b.first)) return a.second < b.second;
    return largest ? below(b.first, a.first) : below(a.first, b.first);
  });
  for (Index i = 0; i < k; ++i) order[i] = pairs[static_cast<std::size_t>(i)].second;
}

template <class T, class V>
void select(const Tensor& x, Index k, int axis, bool largest, V* values, Index* indices) {
  const Index inner = x.shape().product(axis + 1, x.rank()), extent = x.shape()[axis];
  const Index lines = x.shape().product(0, axis) * inner;
  const T* from = x.data<T>();
  parallel_ranges(x.numel() >= kParallelElements / 4 && lines > 1, lines, [&](Range range) {
    std::vector<std::uint64_t> keys;
    std::vector<Index> order(static_cast<std::size_t>(k));
    for (Index line = range.first; line < range.last; ++line) {
      const Index o = line / inner, i = line % inner;
      const T* first = from + o * extent * inner + i;
      order_line(first, extent, inner, k, largest, keys, order.data());
      for (Index j = 0; j < k; ++j) {
        const Index at = order[static_cast<std::size_t>(j)], to = (o * k + j) * inner + i;
        values[to] = convert<V>(first[at * inner]);
        indices[to] = at;
      }
    }
  });
}

}  // namespace

void CpuIndex::topk(const Tensor& x, Index k, int axis, bool largest, const Tensor& values,
                    const Tensor& indices) {
  if (values.numel() == 0) return;
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    if (values.dtype() == x.dtype()) {
      select<T>(x, k, axis, largest, values.data<T>(), indices.data<Index>());
    } else {  // widened by the precision rule
      visit_floating(values.dtype(), [&]<class V>(TypeTag<V>) {
        select<T>(x, k, axis, largest, values.data<V>(), indices.data<Index>());
      });
    }
  });
}

}  // namespace tandem::cpu::TANDEM_LEVEL
