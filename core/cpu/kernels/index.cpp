// Gather, scatter and one-hot. One pass range-checks all indices before any write.
//
// A tensor is viewed as [outer, extent of the axis, inner]. Sums over repeated indices run in the order of
// the indices for any number of threads: threads divide targets, never the sum of one target.
#include "core/cpu/kernels/index.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/error.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

std::string position_in(const Shape& shape, Index linear) {
  std::array<Index, kMaxRank> at{};
  for (int i = shape.rank() - 1; i >= 0; --i) {
    at[i] = linear % shape[i];
    linear /= shape[i];
  }
  return to_string(Shape(std::span<const Index>(at.data(), static_cast<std::size_t>(shape.rank()))));
}

template <class I>
void check_indices(const char* op, const Tensor& index, Index extent) {
  const I* values = index.data<I>();
  const Index count = index.numel();
  using Unsigned = std::make_unsigned_t<I>;
  // Negative indices become large unsigned ones. An extent beyond the range of I only needs the sign check.
  const auto bound = static_cast<Unsigned>(std::min<Index>(extent, std::numeric_limits<I>::max()));
  std::atomic<bool> any_bad = false;
  parallel_ranges(count >= kParallelElements, count, [&](Range range) {
    Unsigned bad = 0;
#pragma omp simd reduction(| : bad)
    for (Index i = range.first; i < range.last; ++i) bad |= static_cast<Unsigned>(values[i]) >= bound;
    if (bad != 0) any_bad = true;
  });
  if (!any_bad) return;
  for (Index i = 0; i < count; ++i) {
    require(values[i] >= 0 && values[i] < extent, op, "index {} at position {} lies outside [0,{})",
            values[i], position_in(index.shape(), i), extent);
  }
}

// Calls visit(const I*) with the checked indices.
template <class Visitor>
void with_indices(const char* op, const Tensor& index, Index extent, Visitor&& visit) {
  if (index.dtype() == DType::i32) {
    check_indices<std::int32_t>(op, index, extent);
    visit(static_cast<const std::int32_t*>(index.raw()));
  } else {
    ensure(index.dtype() == DType::i64, op, "indices are {}, not i64 or i32", name_of(index.dtype()));
    check_indices<std::int64_t>(op, index, extent);
    visit(static_cast<const std::int64_t*>(index.raw()));
  }
}

// Calls visit(X{}, Y{}): unsigned integers of the element size for equal dtypes, else floating storage types.
template <class Visitor>
void visit_moved(DType x, DType y, Visitor&& visit) {
  if (x == y) {
    return visit_word(x, [&]<class W>(TypeTag<W>) { visit(W{}, W{}); });
  }
  visit_floating(
      x, [&]<class X>(TypeTag<X>) { visit_floating(y, [&]<class Y>(TypeTag<Y>) { visit(X{}, Y{}); }); });
}

template <class X, class Y>
void move_block(const X* x, Y* y, Index count) {
  if constexpr (std::is_same_v<X, Y>) {
    if (count == 1) {
      *y = *x;
    } else if (count > 0) {
      std::memcpy(y, x, static_cast<std::size_t>(count) * sizeof(X));
    }
  } else if constexpr (std::is_same_v<X, double> || std::is_same_v<Y, double>) {
    for (Index i = 0; i < count; ++i) y[i] = convert<Y>(x[i]);
  } else {
    float held[kBlock];
    for (Index done = 0; done < count; done += kBlock) {
      const Index n = std::min(kBlock, count - done);
      load_block(x + done, held, n);
      store_block(held, y + done, n);
    }
  }
}

// y ← y + x, y in its compute type.
template <class X, class Y>
void add_to(const X* x, Y* y, Index count) {
  if constexpr (is_16bit_v<X> && std::is_same_v<Y, float>) {
    float held[kBlock];
    for (Index done = 0; done < count; done += kBlock) {
      const Index n = std::min(kBlock, count - done);
      load_block(x + done, held, n);
      for (Index i = 0; i < n; ++i) y[done + i] += held[i];
    }
  } else {
    for (Index i = 0; i < count; ++i) y[i] += convert<Y>(x[i]);
  }
}

// ---- gather and scatter_add: one index per element

// The elements of `index` and their positions in a larger tensor of the same rank.
class Lines {
 public:
  Lines(const Shape& index, const Shape& large, int axis)
      : outer(index.product(0, axis)),
        count(index[axis]),
        inner(index.product(axis + 1, index.rank())),
        stride(large.product(axis + 1, large.rank())) {
    const auto strides = large.strides();
    outer_offsets_ = offsets(index, strides, 0, axis);
    inner_offsets_ = offsets(index, strides, axis + 1, index.rank());
  }

  Index outer, count, inner;
  Index stride;  // of the axis in the large tensor
  Index outer_offset(Index i) const { return outer_offsets_[static_cast<std::size_t>(i)]; }
  Index inner_offset(Index i) const { return inner_offsets_[static_cast<std::size_t>(i)]; }

 private:
  // Offsets in the large tensor of all index positions over axes [first, last).
  static std::vector<Index> offsets(const Shape& index, const std::array<Index, kMaxRank>& strides, int first,
                                    int last) {
    std::vector<Index> result{0};
    for (int axis = first; axis < last; ++axis) {
      std::vector<Index> next;
      next.reserve(result.size() * static_cast<std::size_t>(index[axis]));
      for (const Index base : result) {
        for (Index i = 0; i < index[axis]; ++i) next.push_back(base + i * strides[axis]);
      }
      result = std::move(next);
    }
    return result;
  }

  std::vector<Index> outer_offsets_, inner_offsets_;
};

// Adds along every line. Lines have disjoint targets and may run on different threads.
template <class I, class S, class Y>
void add_along_lines(const Lines& lines, const I* index, const S* src, Y* y) {
  const bool parallel = lines.outer * lines.count * lines.inner >= kParallelElements;
  const int team = parallel ? threads() : 1;
  // With few outer lines the threads divide the inner ones.
  const Index parts = lines.outer >= team ? 1 : team;
  parallel_for(parallel, lines.outer, parts, [&](Index o, Index part) {
    const Range range = part_of(lines.inner, part, parts);
    Y* base = y + lines.outer_offset(o);
    for (Index k = 0; k < lines.count; ++k) {
      const Index at = (o * lines.count + k) * lines.inner;
      for (Index i = range.first; i < range.last; ++i)
        base[static_cast<Index>(index[at + i]) * lines.stride + lines.inner_offset(i)] +=
            convert<Y>(src[at + i]);
    }
  });
}

// ---- index_select and index_add: one index per slice

// Threads divide the targets by outer position, columns or rows, whichever gives all of them work.
template <class I, class S, class Y>
void add_slices(const Slices& s, const I* index, const S* src, Y* y, std::optional<Index> skip) {
  const bool parallel = s.outer * s.picked * s.inner >= kParallelElements;
  const int team = parallel ? threads() : 1;
  const bool by_outer = s.outer >= team, by_columns = !by_outer && s.inner >= Index{32} * team;
  parallel_shares(team, team, [&](Index part) {
    const Range outer = by_outer ? part_of(s.outer, part, team) : Range{0, s.outer};
    const Range columns = by_columns ? part_of(s.inner, part, team) : Range{0, s.inner};
    const Range rows = by_outer || by_columns ? Range{0, s.extent} : part_of(s.extent, part, team);
    for (Index o = outer.first; o < outer.last; ++o) {
      for (Index k = 0; k < s.picked; ++k) {
        const auto row = static_cast<Index>(index[k]);
        if (row < rows.first || row >= rows.last || row == skip) continue;
        add_to(src + (o * s.picked + k) * s.inner + columns.first,
               y + (o * s.extent + row) * s.inner + columns.first, columns.last - columns.first);
      }
    }
  });
}

// Calls add(target) with y if it has its compute type, else with a wide copy that is rounded into y once.
template <class Y, class Add>
void accumulate_wide(const Tensor& y, Add&& add) {
  if constexpr (is_16bit_v<Y>) {
    const Tensor wide = workspace<float>(y.shape());
    load_block(y.data<Y>(), wide.data<float>(), y.numel());
    add(wide.data<float>());
    store_block(wide.data<float>(), y.data<Y>(), y.numel());
  } else {
    add(y.data<Y>());
  }
}

template <class Visitor>
void visit_summed(const char* op, DType src, DType y, Visitor&& visit) {
  if (is_floating(y)) {
    ensure(is_floating(src), op, "cannot add {} to {}", name_of(src), name_of(y));
    visit_floating(
        src, [&]<class S>(TypeTag<S>) { visit_floating(y, [&]<class Y>(TypeTag<Y>) { visit(S{}, Y{}); }); });
  } else {
    ensure(src == y && (y == DType::i64 || y == DType::i32), op, "cannot add {} to {}", name_of(src),
           name_of(y));
    if (y == DType::i64) return visit(std::int64_t{}, std::int64_t{});
    visit(std::int32_t{}, std::int32_t{});
  }
}

}  // namespace

void CpuIndex::gather(const Tensor& x, const Tensor& index, int axis, const Tensor& y) {
  if (index.numel() == 0) return;
  const Lines lines(index.shape(), x.shape(), axis);
  with_indices("gather", index, x.shape()[axis], [&](const auto* indices) {
    visit_moved(x.dtype(), y.dtype(), [&]<class X, class Y>(X, Y) {
      const X* from = static_cast<const X*>(x.raw());
      Y* to = static_cast<Y*>(y.raw());
      parallel_for(y.numel() >= kParallelElements, lines.outer, lines.count, [&](Index o, Index k) {
        const Index at = (o * lines.count + k) * lines.inner;
        const X* base = from + lines.outer_offset(o);
        for (Index i = 0; i < lines.inner; ++i)
          to[at + i] =
              convert<Y>(base[static_cast<Index>(indices[at + i]) * lines.stride + lines.inner_offset(i)]);
      });
    });
  });
}

void CpuIndex::scatter_add(const Tensor& src, const Tensor& index, int axis, const Tensor& y) {
  if (index.numel() == 0) return;
  const Lines lines(index.shape(), y.shape(), axis);
  with_indices("scatter_add", index, y.shape()[axis], [&](const auto* indices) {
    visit_summed("scatter_add", src.dtype(), y.dtype(), [&]<class S, class Y>(S, Y) {
      accumulate_wide<Y>(y, [&](auto* target) { add_along_lines(lines, indices, src.data<S>(), target); });
    });
  });
}

void CpuIndex::index_select(const Tensor& x, const Tensor& index, int axis, const Tensor& y, const char* op) {
  if (index.numel() == 0) return;
  const Slices s(x.shape(), axis, index.numel());
  with_indices(op, index, s.extent, [&](const auto* indices) {
    visit_moved(x.dtype(), y.dtype(), [&]<class X, class Y>(X, Y) {
      const X* from = static_cast<const X*>(x.raw());
      Y* to = static_cast<Y*>(y.raw());
      parallel_for(y.numel() >= kParallelElements, s.outer, s.picked, [&](Index o, Index k) {
        move_block(from + (o * s.extent + static_cast<Index>(indices[k])) * s.inner,
                   to + (o * s.picked + k) * s.inner, s.inner);
      });
    });
  });
}

void CpuIndex::index_add(const Tensor& src, const Tensor& index, int axis, const Tensor& y,
                         std::optional<Index> skip) {
  if (index.numel() == 0) return;
  const Slices s(y.shape(), axis, index.numel());
  with_indices("index_add", index, s.extent, [&](const auto* indices) {
    visit_summed("index_add", src.dtype(), y.dtype(), [&]<class S, class Y>(S, Y) {
      accumulate_wide<Y>(y, [&](auto* target) { add_slices(s, indices, src.data<S>(), target, skip); });
    });
  });
}

void CpuIndex::mark_rows(const Tensor& index, const Tensor& marks, std::optional<Index> skip) {
  if (index.numel() == 0) return;
  with_indices("mark_rows", index, marks.numel(), [&](const auto* indices) {
    auto* const marked = marks.data<std::uint8_t>();
    for (Index i = 0; i < index.numel(); ++i) {
      if (const auto row = static_cast<Index>(indices[i]); row != skip) marked[row] = 1;
    }
  });
}

void CpuIndex::clear_rows(const Tensor& x, const Tensor& marks) {
  ensure(x.rank() == 2 && x.size(0) == marks.numel(), "clear_rows", "marks {} do not match the rows of {}",
         to_string(marks), to_string(x));
  const Index rows = x.size(0), columns = x.size(1);
  auto* const marked = marks.data<std::uint8_t>();
  auto* const values = x.data<float>();
  parallel_for(x.numel() >= kParallelElements, rows, [&](Index row) {
    if (marked[row] == 0) return;
    std::fill_n(values + row * columns, columns, 0.0f);
    marked[row] = 0;
  });
}

void CpuIndex::one_hot(const Tensor& index, const Tensor& y) {
  backend().fill(y, 0.0);
  if (index.numel() == 0) return;
  const Index classes = y.shape()[y.rank() - 1];
  with_indices("one_hot", index, classes, [&](const auto* indices) {
    visit_dtype(y.dtype(), [&]<class T>(TypeTag<T>) {
      const T one = convert<T>(1.0f);
      T* to = y.data<T>();
      for (Index i = 0; i < index.numel(); ++i) to[i * classes + static_cast<Index>(indices[i])] = one;
    });
  });
}

IndexKernels& CpuBackend::index() { return instance<CpuIndex>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
