// `pointwise` over operands that are broadcast or have mixed types.
//
// Operands of one type in uniform rows ([rows, columns] with [columns] or [rows, 1], after merging axes) are
// processed 16 bytes per thread. All others are processed element by element, with types read at run time.
#include <cuda_runtime.h>

#include <array>
#include <optional>

#include "core/cuda/broadcast.h"
#include "core/cuda/divider.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/pointwise.h"
#include "core/error.h"

namespace tandem::cuda {

namespace {

using Space = BroadcastSpace<kMaxOperands>;
using Start = BroadcastStart<kMaxOperands>;

// Maximum elements per launch, within the range of the divider.
constexpr Index kMostElements = (Index{1} << 31) - 1;

Space space_of(std::span<const Tensor> inputs, const Shape& shape) {
  Space space;
  std::array<Index, kMaxOperands> step;
  step.fill(1);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    Index stride[kMaxOperands] = {};
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const Shape& own = inputs[k].shape();
      const int at = axis - (shape.rank() - own.rank());
      const Index own_extent = at >= 0 ? own[at] : 1;
      stride[k] = own_extent == 1 ? 0 : step[k];
      step[k] *= own_extent;
    }
    space.add(shape[axis], stride);
  }
  return space;
}

// ---- One type, uniform rows

template <class T>
struct RowOperands {
  const T* at[kMaxOperands];
  Index row[kMaxOperands];         // elements between rows; 0: one row for all
  bool has_columns[kMaxOperands];  // otherwise one element is broadcast over all columns
};

// y has `packs` packs, `in_row` of them per row.
template <class F, class T>
__global__ void __launch_bounds__(kThreads)
    broadcast_kernel(formulas::Constants<ComputeType<T>> c, RowOperands<T> x, T* y, std::uint32_t packs,
                     Divider<std::uint32_t> in_row, bool accumulate) {
  await_earlier_work();
  using Values = Pack<T>;
  const std::uint32_t stride = gridDim.x * kThreads;
  for (std::uint32_t p = blockIdx.x * kThreads + threadIdx.x; p < packs; p += stride) {
    const std::uint32_t row = in_row.quotient(p), pack = p - row * in_row.divisor;
    Values in[F::arity];
#pragma unroll
    for (int k = 0; k < F::arity; ++k) {
      const T* const from = x.at[k] + row * x.row[k];
      if (x.has_columns[k]) {
        in[k] = reinterpret_cast<const Values*>(from)[pack];
      } else {
#pragma unroll
        for (int i = 0; i < Values::kSize; ++i) in[k].value[i] = *from;
      }
    }
    evaluate_pack<F>(c, in, reinterpret_cast<Values*>(y) + p, accumulate);
  }
}

template <class T>
using BroadcastKernel = void (*)(formulas::Constants<ComputeType<T>>, RowOperands<T>, T*, std::uint32_t,
                                 Divider<std::uint32_t>, bool);

template <class F>
inline constexpr bool is_unary_gradient_v = false;
template <class F>
inline constexpr bool is_unary_gradient_v<formulas::GradientOf<F>> = true;

// The gradient of a unary formula has the shape of its operand, so it needs no broadcast.
template <class T, class F>
constexpr BroadcastKernel<T> broadcast_entry() {
  if constexpr (F::arity == 1 || is_unary_gradient_v<F>) {
    return nullptr;
  } else {
    return &broadcast_kernel<F, T>;
  }
}

template <class T, class... F>
BroadcastKernel<T> broadcast_kernel_of(FormulaId id, formulas::FormulaList<F...>) {
  static constexpr BroadcastKernel<T> table[] = {broadcast_entry<T, F>()...};
  return table[static_cast<std::size_t>(id)];
}

// The operands as uniform rows of T, if possible.
template <class T>
std::optional<RowOperands<T>> row_operands(const PointwiseCall& call, const Space& space,
                                           const Start& start) {
  constexpr Index kSize = Pack<T>::kSize;
  if (space.rank > 2 || space.rank == 0 || space.extent[0] % kSize != 0) return {};
  RowOperands<T> rows{};
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    const Tensor& x = call.inputs[k];
    if (x.dtype() != dtype_of<T>()) return {};
    rows.at[k] = x.data<T>() + start.operand[k];
    rows.row[k] = space.rank == 2 ? space.stride[k][1] : 0;
    rows.has_columns[k] = space.stride[k][0] != 0;
    if (rows.has_columns[k] && (!is_aligned(rows.at[k]) || rows.row[k] % kSize != 0)) return {};
  }
  return rows;
}

template <class T>
bool run_rows(const PointwiseCall& call, const Space& space, const Start& start) {
  const BroadcastKernel<T> kernel = broadcast_kernel_of<T>(call.formula, formulas::Formulas{});
  T* const y = call.y.data<T>() + start.result;
  if (kernel == nullptr || !is_aligned(y)) return false;
  const std::optional<RowOperands<T>> rows = row_operands<T>(call, space, start);
  if (!rows) return false;
  const Index packs = space.count / Pack<T>::kSize;
  launch_early("pointwise", kernel, blocks_for(packs), kThreads, call.stream,
               constants_of<ComputeType<T>>(call.scalars), *rows, y, static_cast<std::uint32_t>(packs),
               Divider<std::uint32_t>(space.extent[0] / Pack<T>::kSize), call.accumulate);
  return true;
}

// ---- Any types, any axes

struct AnyOperands {
  const void* at[kMaxOperands];
  DType dtype[kMaxOperands];
};

// Axes of a space; axis 0 is the innermost.
struct Axes {
  int rank = 0;
  std::uint32_t count = 0;
  Divider<std::uint32_t> extent[kMaxRank];
  Index stride[kMaxOperands][kMaxRank];
};

template <class F, class C>
__global__ void __launch_bounds__(kThreads) general_kernel(formulas::Constants<C> c, AnyOperands x, Axes axes,
                                                           void* y, DType y_dtype, bool accumulate) {
  await_earlier_work();
  const std::uint32_t stride = gridDim.x * kThreads;
  for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < axes.count; i += stride) {
    Index offset[F::arity] = {};
    std::uint32_t rest = i;
#pragma unroll 1
    for (int axis = 0; axis < axes.rank; ++axis) {
      const std::uint32_t around = axes.extent[axis].quotient(rest);
      const std::uint32_t along = rest - around * axes.extent[axis].divisor;
      rest = around;
#pragma unroll
      for (int k = 0; k < F::arity; ++k) offset[k] += along * axes.stride[k][axis];
    }
    C operands[F::arity];
#pragma unroll
    for (int k = 0; k < F::arity; ++k) operands[k] = load_any<C>(x.at[k], x.dtype[k], offset[k]);
    C result = evaluate<F>(c, operands);
    if (accumulate) result += load_any<C>(y, y_dtype, i);
    store_any(y, y_dtype, i, result);
  }
}

template <class C>
using GeneralKernel = void (*)(formulas::Constants<C>, AnyOperands, Axes, void*, DType, bool);

template <class C, class F>
constexpr GeneralKernel<C> general_entry() {
  if constexpr (std::is_integral_v<C> && !F::kIntegral) {
    return nullptr;
  } else {
    return &general_kernel<F, C>;
  }
}

template <class C, class... F>
GeneralKernel<C> general_kernel_of(FormulaId id, formulas::FormulaList<F...>) {
  static constexpr GeneralKernel<C> table[] = {general_entry<C, F>()...};
  return table[static_cast<std::size_t>(id)];
}

void* address_in(const Tensor& tensor, Index offset) {
  return static_cast<char*>(tensor.raw()) + offset * static_cast<Index>(size_of(tensor.dtype()));
}

Axes axes_of(const Space& space) {
  Axes axes{};
  axes.rank = space.rank;
  axes.count = static_cast<std::uint32_t>(space.count);
  for (int axis = 0; axis < space.rank; ++axis) {
    axes.extent[axis] = Divider<std::uint32_t>(space.extent[axis]);
    for (int k = 0; k < kMaxOperands; ++k) axes.stride[k][axis] = space.stride[k][axis];
  }
  return axes;
}

template <class C>
void run_general(const PointwiseCall& call, const Space& space, const Start& start) {
  const GeneralKernel<C> kernel = general_kernel_of<C>(call.formula, formulas::Formulas{});
  ensure(kernel != nullptr, "pointwise", "formula {} is not defined for {}", static_cast<int>(call.formula),
         name_of(call.y.dtype()));
  AnyOperands operands{};
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    operands.at[k] = address_in(call.inputs[k], start.operand[k]);
    operands.dtype[k] = call.inputs[k].dtype();
  }
  launch_early("pointwise", kernel, blocks_for(space.count), kThreads, call.stream,
               constants_of<C>(call.scalars), operands, axes_of(space), address_in(call.y, start.result),
               call.y.dtype(), call.accumulate);
}

void run_part(const PointwiseCall& call, const Space& space, const Start& start) {
  const DType dtype = call.y.dtype();
  bool f64 = dtype == DType::f64, floating = is_floating(dtype), done = false;
  for (const Tensor& x : call.inputs) {
    f64 = f64 || x.dtype() == DType::f64;
    floating = floating || is_floating(x.dtype());
  }
  if (is_floating(dtype))
    visit_floating(dtype, [&]<class T>(TypeTag<T>) { done = run_rows<T>(call, space, start); });
  if (done) return;
  if (f64) {
    run_general<double>(call, space, start);
  } else if (floating) {
    run_general<float>(call, space, start);
  } else {
    run_general<std::int64_t>(call, space, start);
  }
}

}  // namespace

void run_broadcast(const PointwiseCall& call) {
  visit_parts(space_of(call.inputs, call.y.shape()), kMostElements,
              [&](const Space& space, const Start& start) { run_part(call, space, start); });
}

}  // namespace tandem::cuda
