// Strided copies. One kernel implements permutations, slices, padding, concatenation, broadcasting and flips.
//
// A copy is planned as a list of axes: extents of 1 are dropped, axes are sorted so that the innermost one
// writes consecutive elements, and axes contiguous on both sides merge. The last two axes form a plane (row
// axis, column axis), processed in blocks by the fastest loop for its strides.
#include "core/cpu/kernels/shape.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/convert.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/parallel.h"
#include "core/error.h"
#include "core/kernels/merged_axes.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

constexpr Index kParallelBytes = Index{1} << 17;  // below this, threads cost more than they save
constexpr Index kBlockElements = Index{1} << 15;  // elements per unit of work
constexpr Index kTransposed = 64 * 64;            // elements per unit of a transposition

using Axis = kernels::CopyAxis;

// The last two axes form the plane.
struct Plan : kernels::CopyAxes {
  const Axis& row() const { return axes[rank - 2]; }
  const Axis& column() const { return axes[rank - 1]; }
  bool transposes() const { return row().from == 1 && column().to == 1 && column().from != 1; }
};

Plan make_plan(const StridedView& from, const StridedView& to, const Shape& extents) {
  Plan plan{{from, to, extents}};
  while (plan.rank < 2) {  // a plane has two axes
    std::copy_backward(plan.axes.begin(), plan.axes.begin() + plan.rank, plan.axes.begin() + plan.rank + 1);
    plan.axes[0] = {};
    ++plan.rank;
  }
  if (plan.column().from != 1 && plan.column().to == 1) {  // transposition: read along the rows
    for (int i = 0; i < plan.rank - 1; ++i) {
      if (plan.axes[i].from == 1)
        std::rotate(plan.axes.begin() + i, plan.axes.begin() + i + 1, plan.axes.begin() + plan.rank - 1);
    }
  }
  return plan;
}

// A block of the plane: y[r·to_row + c·to_column] = x[r·from_row + c·from_column].
struct Block {
  Index rows, columns;
  Axis row, column;  // strides only
};

// Calls kernel(block, from, to) for every block of the plan, in parallel for large copies.
template <class Kernel>
void for_each_block(const Plan& plan, Index bytes, const Kernel& kernel) {
  const Axis row = plan.row(), column = plan.column();
  Index block_columns = std::min(column.extent, kBlockElements);
  Index block_rows = std::min(row.extent, std::max<Index>(1, kBlockElements / block_columns));
  if (plan.transposes()) {  // nearly square
    block_columns = std::min(column.extent, std::max(kTransposed / row.extent, Index{64}));
    block_rows = std::min(row.extent, std::max(kTransposed / column.extent, Index{64}));
  }
  const Index across = (column.extent + block_columns - 1) / block_columns;
  const Index down = (row.extent + block_rows - 1) / block_rows;
  Index units = across * down;
  for (int i = 0; i < plan.rank - 2; ++i) units *= plan.axes[i].extent;

  parallel_for(bytes >= kParallelBytes && units > 1, units, [&](Index unit) {
    const Index first_column = unit % across * block_columns;
    Index rest = unit / across;
    const Index first_row = rest % down * block_rows;
    rest /= down;
    Index from = plan.from + first_row * row.from + first_column * column.from;
    Index to = plan.to + first_row * row.to + first_column * column.to;
    for (int i = plan.rank - 3; i >= 0; --i) {
      const Index at = rest % plan.axes[i].extent;
      rest /= plan.axes[i].extent;
      from += at * plan.axes[i].from;
      to += at * plan.axes[i].to;
    }
    kernel(Block{std::min(block_rows, row.extent - first_row),
                 std::min(block_columns, column.extent - first_column), row, column},
           from, to);
  });
}

// ---- Transposition of N×N tiles in registers: log2 N rounds that exchange off-diagonal quarters.

template <class T, int N>
struct Tile {
  typedef T Vector __attribute__((vector_size(N * sizeof(T)), aligned(1), may_alias));
  typedef T Register __attribute__((vector_size(N * sizeof(T))));

  template <int kStep, std::size_t... kLane>
  static void exchange(Register& a, Register& b, std::index_sequence<kLane...>) {
    // Indices 0…N-1 select from a, N…2N-1 from b.
    const Register upper = __builtin_shufflevector(a, b, (kLane & kStep ? N + kLane - kStep : kLane)...);
    b = __builtin_shufflevector(a, b, (kLane & kStep ? N + kLane : kLane + kStep)...);
    a = upper;
  }

  template <int kStep>
  static void round(Register (&rows)[N]) {
#pragma GCC unroll 32
    for (int i = 0; i < N; ++i) {
      if ((i & kStep) == 0) exchange<kStep>(rows[i], rows[i + kStep], std::make_index_sequence<N>{});
    }
    if constexpr (kStep > 1) round<kStep / 2>(rows);
  }

  static void transpose(const T* x, Index x_stride, T* y, Index y_stride) {
    Register rows[N];
#pragma GCC unroll 32
    for (int i = 0; i < N; ++i) rows[i] = *reinterpret_cast<const Vector*>(x + i * x_stride);
    round<N / 2>(rows);
#pragma GCC unroll 32
    for (int i = 0; i < N; ++i) *reinterpret_cast<Vector*>(y + i * y_stride) = rows[i];
  }
};

// Rows are contiguous in x, columns in y.
template <class T>
void transpose_block(const Block& block, const T* x, T* y) {
  constexpr int kTile = 16;
  const Index x_stride = block.column.from, y_stride = block.row.to;
  Index tiled_rows = 0, tiled_columns = 0;
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
    tiled_rows = block.rows / kTile * kTile;
    tiled_columns = block.columns / kTile * kTile;
    for (Index r = 0; r < tiled_rows; r += kTile) {
      for (Index c = 0; c < tiled_columns; c += kTile)
        Tile<T, kTile>::transpose(x + r + c * x_stride, x_stride, y + r * y_stride + c, y_stride);
    }
  }
  for (Index r = 0; r < block.rows; ++r) {
    for (Index c = r < tiled_rows ? tiled_columns : 0; c < block.columns; ++c)
      y[r * y_stride + c] = x[r + c * x_stride];
  }
}

template <class T, Index kColumns>
void copy_narrow_rows(const Block& block, const T* x, T* y) {
  for (Index r = 0; r < block.rows; ++r)
    std::memcpy(y + r * block.row.to, x + r * block.row.from, kColumns * sizeof(T));
}

// Columns are contiguous in x and y.
template <class T>
void copy_rows(const Block& block, const T* x, T* y) {
  switch (block.columns) {
    case 1:
      return copy_narrow_rows<T, 1>(block, x, y);
    case 2:
      return copy_narrow_rows<T, 2>(block, x, y);
    case 3:
      return copy_narrow_rows<T, 3>(block, x, y);
    case 4:
      return copy_narrow_rows<T, 4>(block, x, y);
    case 8:
      return copy_narrow_rows<T, 8>(block, x, y);
    case 16:
      return copy_narrow_rows<T, 16>(block, x, y);
    default:
      break;
  }
  const std::size_t bytes = static_cast<std::size_t>(block.columns) * sizeof(T);
  for (Index r = 0; r < block.rows; ++r) std::memcpy(y + r * block.row.to, x + r * block.row.from, bytes);
}

template <class T>
void copy_block(const Block& block, const T* x, T* y) {
  const Axis& column = block.column;
  if (column.to == 1 && column.from == 1) return copy_rows(block, x, y);
  if (column.to == 1 && block.row.from == 1) return transpose_block(block, x, y);
  for (Index r = 0; r < block.rows; ++r) {
    const T* from = x + r * block.row.from;
    T* to = y + r * block.row.to;
    if (column.to == 1 && column.from == 0) {
      std::fill_n(to, block.columns, *from);
    } else if (column.to == 1 && column.from == -1) {
      std::reverse_copy(from - block.columns + 1, from + 1, to);
    } else {
      for (Index c = 0; c < block.columns; ++c) to[c * column.to] = from[c * column.from];
    }
  }
}

template <class X, class Y>
void add_block(const Block& block, const X* x, Y* y) {
  using Compute = std::conditional_t<std::is_same_v<X, double>, double, ComputeType<Y>>;
  const auto add = [](Y& to, X from) { to = convert<Y>(convert<Compute>(to) + convert<Compute>(from)); };
  for (Index r = 0; r < block.rows; ++r) {
    const X* from = x + r * block.row.from;
    Y* to = y + r * block.row.to;
    if (block.column.to == 1 && block.column.from == 1) {
      for (Index c = 0; c < block.columns; ++c) add(to[c], from[c]);
    } else {
      for (Index c = 0; c < block.columns; ++c) add(to[c * block.column.to], from[c * block.column.from]);
    }
  }
}

template <class T>
void copy_elements(const Plan& plan, Index bytes, const void* x, void* y) {
  for_each_block(plan, bytes, [&](const Block& block, Index from, Index to) {
    copy_block(block, static_cast<const T*>(x) + from, static_cast<T*>(y) + to);
  });
}

void add_elements(const Plan& plan, Index bytes, const Tensor& x, const Tensor& y) {
  if (!is_floating(y.dtype())) {
    ensure(x.dtype() == y.dtype() && (y.dtype() == DType::i64 || y.dtype() == DType::i32), "strided_copy",
           "cannot accumulate {} into {}", name_of(x.dtype()), name_of(y.dtype()));
    const auto add = [&]<class T>(TypeTag<T>) {
      for_each_block(plan, bytes, [&](const Block& block, Index from, Index to) {
        add_block(block, x.data<T>() + from, y.data<T>() + to);
      });
    };
    return y.dtype() == DType::i64 ? add(TypeTag<std::int64_t>{}) : add(TypeTag<std::int32_t>{});
  }
  visit_floating(x.dtype(), [&]<class X>(TypeTag<X>) {
    visit_floating(y.dtype(), [&]<class Y>(TypeTag<Y>) {
      for_each_block(plan, bytes, [&](const Block& block, Index from, Index to) {
        add_block(block, x.data<X>() + from, y.data<Y>() + to);
      });
    });
  });
}

}  // namespace

void CpuShape::strided_copy(const Tensor& x, const StridedView& from, const Tensor& y, const StridedView& to,
                            const Shape& extents, bool accumulate) {
  if (extents.numel() == 0) return;
  const Plan plan = make_plan(from, to, extents);
  const Index bytes = extents.numel() * static_cast<Index>(size_of(y.dtype()));
  if (accumulate) return add_elements(plan, bytes, x, y);
  ensure(x.dtype() == y.dtype(), "strided_copy", "source {} and destination {} differ in dtype",
         name_of(x.dtype()), name_of(y.dtype()));
  visit_word(y.dtype(), [&]<class T>(TypeTag<T>) { copy_elements<T>(plan, bytes, x.raw(), y.raw()); });
}

ShapeKernels& CpuBackend::shape() { return instance<CpuShape>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
