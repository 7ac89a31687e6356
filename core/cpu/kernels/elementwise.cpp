// Elementwise kernels: fill, copies, casts and `pointwise`.
//
// `pointwise` evaluates a formula on blocks of compute-type values in L1, so each formula is compiled once
// per compute type. Contiguous operands of the compute type are read and written in place.
#include "core/cpu/kernels/elementwise.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/cpu/kernels/blocks.h"
#include "core/error.h"
#include "core/kernels/formulas.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

constexpr int kMaxOperands = 3;
constexpr int kTogether = 8;  // elements of a short row written by one store

template <class T>
using Kernel = void (*)(const formulas::Constants<T>&, const T* const* operands, T* y, Index count);

template <class F, class T>
void run(const formulas::Constants<T>& constants, const T* const* x, T* y, Index count) {
  // A local copy. Stores to y might alias `constants` and prevent vectorisation of conditional formulas.
  const formulas::Constants<T> c = constants;
  // The output may alias an operand element for element; the pragma asserts that there is no other overlap.
  if constexpr (F::arity == 1) {
    const T* a = x[0];
#pragma omp simd
    for (Index i = 0; i < count; ++i) y[i] = F::eval(c, a[i]);
  } else if constexpr (F::arity == 2) {
    const T *a = x[0], *b = x[1];
#pragma omp simd
    for (Index i = 0; i < count; ++i) y[i] = F::eval(c, a[i], b[i]);
  } else {
    const T *p = x[0], *q = x[1], *r = x[2];
#pragma omp simd
    for (Index i = 0; i < count; ++i) y[i] = F::eval(c, p[i], q[i], r[i]);
  }
}

template <class T>
struct Entry {
  Kernel<T> kernel = nullptr;  // null: undefined for T
  int arity = 0;
};

template <class T, class... F>
constexpr auto make_table(formulas::FormulaList<F...>) {
  const auto entry = []<class G>(TypeTag<G>) -> Entry<T> {
    if constexpr (std::is_integral_v<T> && !G::kIntegral) {
      return {nullptr, G::arity};
    } else {
      return {&run<G, T>, G::arity};
    }
  };
  return std::array<Entry<T>, sizeof...(F)>{entry(TypeTag<F>{})...};
}

template <class T>
const Entry<T>& entry_of(FormulaId id) {
  static constexpr auto table = make_table<T>(formulas::Formulas{});
  return table[static_cast<std::size_t>(id)];
}

template <class T>
formulas::Constants<T> constants_of(const Scalars& scalars) {
  formulas::Constants<T> c;
  for (int i = 0; i < 4; ++i) c.value[i] = convert<T>(scalars[i]);
  return c;
}

// Iteration space after merging axes: `rows` rows of `inner` contiguous elements of y.
struct Space {
  int outer_rank = 0;
  std::array<Index, kMaxRank> outer{};  // extents of the row axes
  Index rows = 1, inner = 1;
  std::array<std::array<Index, kMaxRank>, kMaxOperands> outer_stride{};  // in elements, 0 if broadcast
  std::array<Index, kMaxOperands> inner_stride{};                        // 0 or 1
};

Space merge_axes(std::span<const Tensor> inputs, const Shape& shape) {
  const int rank = shape.rank();
  std::array<std::array<Index, kMaxRank>, kMaxOperands> strides{};
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Shape& s = inputs[k].shape();
    Index step = 1;
    for (int axis = s.rank() - 1; axis >= 0; --axis) {
      strides[k][axis + rank - s.rank()] = s[axis] == 1 ? 0 : step;
      step *= s[axis];
    }
  }
  // Axes are merged from the innermost outwards; the last entry may still absorb the next axis.
  std::array<Index, kMaxRank> extent{};
  std::array<std::array<Index, kMaxRank>, kMaxOperands> stride{};
  int count = 0;
  for (int axis = rank - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    bool joins = count > 0;
    for (std::size_t k = 0; k < inputs.size() && joins; ++k)
      joins = strides[k][axis] == stride[k][count - 1] * extent[count - 1];
    if (joins) {
      extent[count - 1] *= shape[axis];
    } else {
      extent[count] = shape[axis];
      for (std::size_t k = 0; k < inputs.size(); ++k) stride[k][count] = strides[k][axis];
      ++count;
    }
  }
  Space space;
  if (count == 0) return space;
  space.inner = extent[0];
  for (std::size_t k = 0; k < inputs.size(); ++k) space.inner_stride[k] = stride[k][0];
  space.outer_rank = count - 1;
  for (int i = 1; i < count; ++i) {
    const int at = count - 1 - i;
    space.outer[at] = extent[i];
    space.rows *= extent[i];
    for (std::size_t k = 0; k < inputs.size(); ++k) space.outer_stride[k][at] = stride[k][i];
  }
  return space;
}

// One operand of a pointwise call, as seen by the block loop.
template <class T>
struct Operand {
  enum class Way : std::uint8_t {
    contiguous,  // same layout as y: a block is contiguous
    repeated,    // all rows are equal: the buffer is filled once
    spread,      // one element per row, contiguous over rows
    general,     // copied row by row
  };
  const void* data = nullptr;
  DType dtype = DType::f32;
  Way way = Way::contiguous;
  bool direct = false;  // stored as T: no conversion
  Index inner_stride = 0;
  std::array<Index, kMaxRank> outer_stride{};
};

template <class T>
class Pointwise {
 public:
  Pointwise(const Entry<T>& entry, const Scalars& scalars, std::span<const Tensor> inputs, const Tensor& y,
            bool accumulate)
      : kernel_(entry.kernel),
        constants_(constants_of<T>(scalars)),
        arity_(entry.arity),
        space_(merge_axes(inputs, y.shape())),
        y_(y.raw()),
        y_dtype_(y.dtype()),
        accumulate_(accumulate) {
    // A unit is a block of one long row, or the whole short rows that fit into a block.
    rows_per_unit_ = space_.inner >= kBlock ? 1 : std::max<Index>(1, kBlock / space_.inner);
    pieces_per_row_ = space_.inner > kBlock ? (space_.inner + kBlock - 1) / kBlock : 1;
    units_ = (space_.rows + rows_per_unit_ - 1) / rows_per_unit_ * pieces_per_row_;
    for (int k = 0; k < arity_; ++k) {
      Operand<T>& operand = operands_[k];
      operand.data = inputs[k].raw();
      operand.dtype = inputs[k].dtype();
      operand.direct = operand.dtype == dtype_of<T>();
      operand.inner_stride = space_.inner_stride[k];
      operand.outer_stride = space_.outer_stride[k];
      const bool same_rows =
          std::all_of(operand.outer_stride.begin(), operand.outer_stride.begin() + space_.outer_rank,
                      [](Index s) { return s == 0; });
      if (inputs[k].numel() == y.numel()) {
        operand.way = Operand<T>::Way::contiguous;
      } else if (same_rows && (pieces_per_row_ == 1 || operand.inner_stride == 0)) {
        operand.way = Operand<T>::Way::repeated;
      } else if (operand.inner_stride == 0 && space_.outer_rank == 1 && operand.outer_stride[0] == 1) {
        operand.way = Operand<T>::Way::spread;
      } else {
        operand.way = Operand<T>::Way::general;
      }
    }
  }

  Index units() const { return units_; }

  void run_units(Index first, Index last) const {
    alignas(64) T buffers[kMaxOperands][kBlock + kTogether];
    alignas(64) T result[kBlock];
    std::array<bool, kMaxOperands> filled{};
    for (Index unit = first; unit < last; ++unit) {
      const Index row = unit / pieces_per_row_ * rows_per_unit_;
      const Index start = unit % pieces_per_row_ * kBlock;
      const Index rows = std::min(rows_per_unit_, space_.rows - row);
      const Index width = std::min(kBlock, space_.inner - start);
      const Index at = row * space_.inner + start, count = rows * width;
      const T* pointers[kMaxOperands];
      for (int k = 0; k < arity_; ++k)
        pointers[k] = fetch(operands_[k], row, rows, start, width, at, buffers[k], filled[k]);
      if (y_dtype_ == dtype_of<T>() && !accumulate_) {
        kernel_(constants_, pointers, static_cast<T*>(y_) + at, count);
      } else {
        kernel_(constants_, pointers, result, count);
        accumulate_ ? add_block(result, y_, y_dtype_, at, count)
                    : store_block(result, y_, y_dtype_, at, count);
      }
    }
  }

 private:
  const T* fetch(const Operand<T>& operand, Index row, Index rows, Index start, Index width, Index at,
                 T* buffer, bool& filled) const {
    using Way = typename Operand<T>::Way;
    if (operand.way == Way::contiguous) {
      if (operand.direct) return static_cast<const T*>(operand.data) + at;
      load_block(operand.data, operand.dtype, at, buffer, rows * width);
      return buffer;
    }
    if (operand.way == Way::repeated) {
      if (!filled) {
        const Index most = std::min(rows_per_unit_, space_.rows);
        for (Index r = 0; r < most; ++r)
          fetch_row(operand, 0, width_of_repeat(), buffer + r * width_of_repeat());
        filled = true;
      }
      return buffer;
    }
    if (operand.way == Way::spread) {
      spread(operand, row, rows, width, buffer);
      return buffer;
    }
    if (rows == 1 && operand.direct && operand.inner_stride == 1)
      return static_cast<const T*>(operand.data) + offset_of(operand, row) + start;
    for (Index r = 0; r < rows; ++r)
      fetch_row(operand, offset_of(operand, row + r) + start * operand.inner_stride, width,
                buffer + r * width);
    return buffer;
  }

  // Elements of short rows are written kTogether at a time; the next row overwrites the excess.
  static void spread(const Operand<T>& operand, Index row, Index rows, Index width, T* buffer) {
    T values[kBlock];
    load_block(operand.data, operand.dtype, row, values, rows);
    for (Index r = 0; r < rows; ++r, buffer += width) {
      T together[kTogether];
      std::fill_n(together, kTogether, values[r]);
      for (Index i = 0; i < width; i += kTogether) std::memcpy(buffer + i, together, sizeof together);
    }
  }

  Index width_of_repeat() const { return std::min(kBlock, space_.inner); }

  static void fetch_row(const Operand<T>& operand, Index offset, Index width, T* buffer) {
    if (operand.inner_stride == 1) {
      if (operand.direct) {
        std::memcpy(buffer, static_cast<const T*>(operand.data) + offset,
                    static_cast<std::size_t>(width) * sizeof(T));
      } else {
        load_block(operand.data, operand.dtype, offset, buffer, width);
      }
    } else {
      T value;
      load_block(operand.data, operand.dtype, offset, &value, 1);
      std::fill_n(buffer, width, value);
    }
  }

  Index offset_of(const Operand<T>& operand, Index row) const {
    Index offset = 0;
    for (int axis = space_.outer_rank - 1; axis >= 0; --axis) {
      offset += row % space_.outer[axis] * operand.outer_stride[axis];
      row /= space_.outer[axis];
    }
    return offset;
  }

  Kernel<T> kernel_;
  formulas::Constants<T> constants_;
  int arity_;
  Space space_;
  void* y_;
  DType y_dtype_;
  bool accumulate_;
  Index rows_per_unit_ = 1, pieces_per_row_ = 1, units_ = 0;
  std::array<Operand<T>, kMaxOperands> operands_{};
};

template <class T>
void pointwise_in(FormulaId id, const Scalars& scalars, std::span<const Tensor> inputs, const Tensor& y,
                  bool accumulate) {
  const Entry<T>& entry = entry_of<T>(id);
  ensure(entry.kernel != nullptr, "pointwise", "formula {} is not defined for integers",
         static_cast<int>(id));
  ensure(static_cast<int>(inputs.size()) == entry.arity, "pointwise", "formula {} takes {} operands, got {}",
         static_cast<int>(id), entry.arity, inputs.size());
  const Pointwise<T> work(entry, scalars, inputs, y, accumulate);
  parallel_ranges(y.numel() >= kParallelElements, work.units(),
                  [&](Range units) { work.run_units(units.first, units.last); });
}

// By way of T, which holds every value of x and is rounded to y's dtype as the value itself would be.
template <class T>
void cast_range(const Tensor& x, const Tensor& y, Index first, Index last) {
  const Index count = last - first;
  if (y.dtype() == dtype_of<T>()) return load_block(x.raw(), x.dtype(), first, y.data<T>() + first, count);
  if (x.dtype() == dtype_of<T>()) return store_block(x.data<T>() + first, y.raw(), y.dtype(), first, count);
  alignas(64) T buffer[kBlock];
  for (Index at = first; at < last; at += kBlock) {
    const Index n = std::min(kBlock, last - at);
    load_block(x.raw(), x.dtype(), at, buffer, n);
    store_block(buffer, y.raw(), y.dtype(), at, n);
  }
}

template <class T>
void accumulate_range(const Tensor& x, const Tensor& y, Index first, Index last) {
  alignas(64) T buffer[kBlock];
  for (Index at = first; at < last; at += kBlock) {
    const Index count = std::min(kBlock, last - at);
    load_block(x.raw(), x.dtype(), at, buffer, count);
    add_block(buffer, y.raw(), y.dtype(), at, count);
  }
}

// Calls body(first, last) for ranges that cover [0, count), in parallel if `count` is large enough.
template <class Body>
void over_elements(Index count, Body&& body) {
  parallel_ranges(count >= kParallelElements, (count + kBlock - 1) / kBlock,
                  [&](Range blocks) { body(blocks.first * kBlock, std::min(count, blocks.last * kBlock)); });
}

}  // namespace

void CpuBackend::fill(const Tensor& y, double value) {
  visit_dtype(y.dtype(), [&]<class S>(TypeTag<S>) {
    S* data = y.data<S>();
    const S element = convert<S>(value);
    over_elements(y.numel(), [&](Index first, Index last) { std::fill(data + first, data + last, element); });
  });
}

void CpuBackend::copy_bytes(const Tensor& x, const Tensor& y) {
  ensure(x.dtype() == y.dtype() && x.numel() == y.numel(), "copy_bytes", "{} and {} differ in dtype or size",
         to_string(x), to_string(y));
  const auto size = static_cast<Index>(size_of(x.dtype()));
  const auto* from = static_cast<const std::byte*>(x.raw());
  auto* to = static_cast<std::byte*>(y.raw());
  over_elements(x.numel(), [&](Index first, Index last) {
    std::memcpy(to + first * size, from + first * size, static_cast<std::size_t>((last - first) * size));
  });
}

void CpuBackend::cast(const Tensor& x, const Tensor& y, bool accumulate) {
  ensure(x.numel() == y.numel(), "cast", "{} and {} differ in size", to_string(x), to_string(y));
  if (accumulate) {
    over_elements(x.numel(), [&](Index first, Index last) {
      if (x.dtype() == DType::f64 || y.dtype() == DType::f64) {
        accumulate_range<double>(x, y, first, last);
      } else if (is_integral(x.dtype()) && is_integral(y.dtype())) {
        accumulate_range<std::int64_t>(x, y, first, last);
      } else {
        accumulate_range<float>(x, y, first, last);
      }
    });
    return;
  }
  if (x.dtype() == y.dtype()) return copy_bytes(x, y);
  over_elements(x.numel(), [&](Index first, Index last) {
    if (x.dtype() == DType::f64) {
      cast_range<double>(x, y, first, last);
    } else if (is_integral(x.dtype()) && (size_of(x.dtype()) >= 4 || is_integral(y.dtype()))) {
      cast_range<std::int64_t>(x, y, first, last);
    } else if (y.dtype() == DType::f64) {
      cast_range<double>(x, y, first, last);
    } else {
      cast_range<float>(x, y, first, last);
    }
  });
}

void CpuElementwise::pointwise(FormulaId formula, const Scalars& scalars, std::span<const Tensor> inputs,
                               const Tensor& y, bool accumulate) {
  if (y.numel() == 0) return;
  bool any_f64 = false, all_integral = true;
  for (const Tensor& input : inputs) {
    any_f64 |= input.dtype() == DType::f64;
    all_integral &= is_integral(input.dtype());
  }
  if (any_f64 || (all_integral && y.dtype() == DType::f64)) {
    pointwise_in<double>(formula, scalars, inputs, y, accumulate);
  } else if (all_integral && is_integral(y.dtype()) && entry_of<std::int64_t>(formula).kernel != nullptr) {
    pointwise_in<std::int64_t>(formula, scalars, inputs, y, accumulate);
  } else {
    pointwise_in<float>(formula, scalars, inputs, y, accumulate);
  }
}

ElementwiseKernels& CpuBackend::elementwise() { return instance<CpuElementwise>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
