// Batch norm: kernels between the passes over columns (norm_columns.cu), which combine the slice sums in f64
// and compute coefficients and running statistics.
#include <cuda_runtime.h>

#include "core/cuda/block_reduce.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/norm.h"
#include "core/cuda/norm_columns.h"
#include "core/cuda/norm_parameters.h"
#include "core/cuda/numeric.h"

namespace tandem::cuda {

namespace {

// Finishing kernels: a block has kFinishChannels channels (32 bytes of f32 per slice), with up to
// kFinishLanes threads for the slices of each channel.
constexpr int kFinishChannels = 8;
constexpr int kFinishLanes = 64;

// Totals of two terms over the slices, for threads 0…kFinishChannels-1 of the block and their channels.
// term(slice, first, second) adds the terms of a slice.
template <class Term>
__device__ __forceinline__ double2 over_slices(Index slices, bool active, Term&& term) {
  __shared__ double2 held[kFinishChannels * kFinishLanes];
  const int thread = static_cast<int>(threadIdx.x), lanes = static_cast<int>(blockDim.x) / kFinishChannels;
  const int lane = thread / kFinishChannels;
  double2 total{0.0, 0.0};
  if (active) {
#pragma unroll 4
    for (Index slice = lane; slice < slices; slice += lanes) term(slice, total.x, total.y);
  }
  held[thread] = total;
  lane_tree(lanes, [&](int distance) {
    if (lane >= distance || lane + distance >= lanes) return;
    const double2 other = held[thread + distance * kFinishChannels];
    total.x += other.x;
    total.y += other.y;
    held[thread] = total;
  });
  return total;
}

struct ForwardSlots {
  Slot gamma, beta, mean, rstd, running_mean, running_var, next_mean, next_var;
  double eps, momentum;
};

ForwardSlots forward_slots(const BatchNormForward& a) {
  return {slot_of(a.gamma),
          slot_of(a.beta),
          slot_of(a.mean),
          slot_of(a.rstd),
          slot_of(a.running_mean),
          slot_of(a.running_var),
          slot_of(a.next_mean),
          slot_of(a.next_var),
          a.eps,
          a.momentum};
}

// The mean is split in two, so that differences from it are exact for large means.
template <class T>
__device__ __forceinline__ void set_coefficients(const ForwardSlots& a, Index c, Index channels, double mean,
                                                 double rstd, T* coefficients) {
  const double scale = element(a.gamma, c, 1.0) * rstd;
  const T high = static_cast<T>(mean);
  coefficients[c] = high;
  coefficients[channels + c] = static_cast<T>(scale);
  coefficients[2 * channels + c] =
      static_cast<T>(element(a.beta, c, 0.0) - (mean - static_cast<double>(high)) * scale);
}

// Computes all results from a channel's mean and its sum of squared deviations.
template <class T>
__device__ __forceinline__ void set_statistics(const ForwardSlots& a, Index c, Index rows, Index channels,
                                               double mean, double deviation, T* coefficients) {
  const double n = static_cast<double>(rows);
  const double squares = deviation < 0.0 ? 0.0 : deviation;  // keeps NaN
  const double rstd = 1.0 / sqrt(squares / n + a.eps);
  set_element(a.mean, c, mean);
  set_element(a.rstd, c, rstd);
  if (a.next_mean.data != nullptr)
    set_element(a.next_mean, c, (1.0 - a.momentum) * element(a.running_mean, c, 0.0) + a.momentum * mean);
  if (a.next_var.data != nullptr) {
    set_element(a.next_var, c,
                (1.0 - a.momentum) * element(a.running_var, c, 0.0) + a.momentum * (squares / (n - 1.0)));
  }
  set_coefficients(a, c, channels, mean, rstd, coefficients);
}

template <class T>
__global__ void __launch_bounds__(kFinishChannels* kFinishLanes)
    finish_statistics_kernel(ForwardSlots a, ColumnPlan p, const T* partial, T* coefficients) {
  await_earlier_work();
  const Index c = Index{blockIdx.x} * kFinishChannels + threadIdx.x % kFinishChannels;
  const Index plane = p.slices * p.channels;
  const bool active = c < p.channels;
  const double origin = active ? static_cast<double>(partial[c]) : 0.0;
  const double2 total = over_slices(p.slices, active, [&](Index slice, double& sum, double& squares) {
    const T* of = partial + slice * p.channels + c;
    const double count = static_cast<double>(p.count(slice));
    const double distance = (static_cast<double>(of[0]) - origin) + static_cast<double>(of[plane]);
    sum += count * distance;
    squares += static_cast<double>(of[2 * plane]) + count * distance * distance;
  });
  if (!active || threadIdx.x >= kFinishChannels) return;
  const double n = static_cast<double>(p.rows);
  set_statistics(a, c, p.rows, p.channels, origin + total.x / n, total.y - total.x * (total.x / n),
                 coefficients);
}

// Statistics from Σ x and Σ x², [2, channels].
template <class T>
__global__ void sums_statistics_kernel(ForwardSlots a, Index rows, Index channels, const float* sums,
                                       T* coefficients) {
  await_earlier_work();
  const Index c = Index{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  const double sum = sums[c], mean = sum / static_cast<double>(rows);
  set_statistics(a, c, rows, channels, mean, static_cast<double>(sums[channels + c]) - sum * mean,
                 coefficients);
}

template <class T>
__global__ void running_coefficients_kernel(ForwardSlots a, Index channels, T* coefficients) {
  await_earlier_work();
  const Index c = Index{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  const double rstd = 1.0 / sqrt(element(a.running_var, c, 1.0) + a.eps);
  set_coefficients(a, c, channels, element(a.running_mean, c, 0.0), rstd, coefficients);
}

struct BackwardSlots {
  Slot gamma, rstd, dgamma, dbeta;
  bool frozen, accumulate_dgamma, accumulate_dbeta;
};

// Without slices (frozen statistics and no parameter gradients) the sums are not needed.
template <class T>
__global__ void __launch_bounds__(kFinishChannels* kFinishLanes)
    finish_gradients_kernel(BackwardSlots a, ColumnPlan p, const T* partial, T* coefficients) {
  await_earlier_work();
  const Index c = Index{blockIdx.x} * kFinishChannels + threadIdx.x % kFinishChannels;
  const Index plane = p.slices * p.channels;
  const bool active = c < p.channels;
  const double2 total = over_slices(p.slices, active, [&](Index slice, double& sum, double& product) {
    sum += static_cast<double>(partial[slice * p.channels + c]);
    product += static_cast<double>(partial[plane + slice * p.channels + c]);
  });
  if (!active || threadIdx.x >= kFinishChannels) return;
  const double rstd = element(a.rstd, c, 1.0), n = static_cast<double>(p.rows), dgamma = total.y * rstd;
  set_element(a.dbeta, c, total.x, a.accumulate_dbeta);
  set_element(a.dgamma, c, dgamma, a.accumulate_dgamma);
  const double scale = element(a.gamma, c, 1.0) * rstd;
  coefficients[c] = static_cast<T>(scale);
  coefficients[p.channels + c] = a.frozen ? T(0) : static_cast<T>(-scale * rstd * dgamma / n);
  coefficients[2 * p.channels + c] = a.frozen ? T(0) : static_cast<T>(-scale * total.x / n);
}

// Threads per finishing block: about four slices per thread.
unsigned finish_threads(Index slices) {
  int lanes = 4;
  while (lanes < kFinishLanes && lanes * 4 < slices) lanes *= 2;
  return static_cast<unsigned>(kFinishChannels * lanes);
}
Index finish_blocks(Index channels) { return ceil_div(channels, kFinishChannels); }

void apply(const BatchNormForward& a, Index rows, ColumnTypes types, void* coefficients,
           cudaStream_t stream) {
  write_forward({.x = a.x,
                 .residual = a.residual,
                 .y = a.y,
                 .mask = a.relu && a.mask.defined() ? a.mask.data<std::uint8_t>() : nullptr,
                 .relu = a.relu,
                 .coefficients = coefficients},
                1, rows, types, stream);
}

}  // namespace

void CudaNorm::batch_norm_train(const BatchNormForward& args) {
  if (args.x.numel() == 0) return;
  const Index channels = args.x.size(-1), rows = args.x.numel() / channels;
  const ColumnTypes types = column_types({&args.x, &args.residual, &args.y}, channels);
  const Tensor coefficients = backend.workspace(Shape{3, channels}, types.compute);
  if (args.sums.defined()) {
    visit_compute(types.compute, [&]<class T>(TypeTag<T>) {
      launch_early("batch_norm_train", sums_statistics_kernel<T>, ceil_div(channels, 64), 64,
                   backend.stream(), forward_slots(args), rows, channels, args.sums.data<float>(),
                   coefficients.data<T>());
    });
    return apply(args, rows, types, coefficients.raw(), backend.stream());
  }
  const ColumnPlan plan = statistics_plan(1, rows, channels, types, args.x.dtype());
  const Tensor partial = backend.workspace(Shape{3, plan.slices, channels}, types.compute);
  gather_statistics(args.x, plan, types, partial.raw(), backend.stream());
  visit_compute(types.compute, [&]<class T>(TypeTag<T>) {
    launch_early("batch_norm_train", finish_statistics_kernel<T>, finish_blocks(channels),
                 finish_threads(plan.slices), backend.stream(), forward_slots(args), plan, partial.data<T>(),
                 coefficients.data<T>());
  });
  apply(args, rows, types, coefficients.raw(), backend.stream());
}

void CudaNorm::batch_norm_infer(const BatchNormForward& args) {
  if (args.x.numel() == 0) return;
  const Index channels = args.x.size(-1), rows = args.x.numel() / channels;
  const ColumnTypes types = column_types({&args.x, &args.residual, &args.y}, channels);
  const Tensor coefficients = backend.workspace(Shape{3, channels}, types.compute);
  visit_compute(types.compute, [&]<class T>(TypeTag<T>) {
    launch_early("batch_norm_infer", running_coefficients_kernel<T>, ceil_div(channels, 64), 64,
                 backend.stream(), forward_slots(args), channels, coefficients.data<T>());
  });
  apply(args, rows, types, coefficients.raw(), backend.stream());
}

void CudaNorm::batch_norm_backward(const BatchNormBackward& args) {
  if (args.x.numel() == 0) {
    if (args.dgamma.defined() && !args.accumulate_dgamma) backend.fill(args.dgamma, 0.0);
    if (args.dbeta.defined() && !args.accumulate_dbeta) backend.fill(args.dbeta, 0.0);
    return;
  }
  const Index channels = args.x.size(-1), rows = args.x.numel() / channels;
  const ColumnTypes types = column_types({&args.x, &args.dy, &args.dx, &args.dresidual}, channels);
  // Without relu the residual's gradient equals dy; nothing is written if both share memory.
  const bool dresidual_is_dy =
      args.dresidual.defined() && !args.relu && !args.accumulate_dresidual && args.dresidual.is_same(args.dy);
  Tensor centre = args.mean;
  if (centre.dtype() != types.compute || !is_aligned(centre.raw(), sizeof(Pack<float, kColumnWidth>))) {
    centre = backend.workspace(Shape{channels}, types.compute);
    backend.cast(args.mean, centre, false);
  }
  const Tensor coefficients = backend.workspace(Shape{3, channels}, types.compute);
  const ColumnBackward passes{.x = args.x,
                              .dy = args.dy,
                              .dx = args.dx,
                              .dresidual = dresidual_is_dy ? Tensor{} : args.dresidual,
                              .mask = args.relu ? args.mask.data<std::uint8_t>() : nullptr,
                              .centre = centre.raw(),
                              .coefficients = coefficients.raw(),
                              .frozen = args.frozen,
                              .accumulate_dx = args.accumulate_dx,
                              .accumulate_dresidual = args.accumulate_dresidual};
  const bool parameters = args.dgamma.defined() || args.dbeta.defined();
  if (parameters || args.dx.defined()) {
    ColumnPlan plan = gradient_plan(1, rows, channels, types, args.x.dtype());
    if (!parameters && args.frozen) plan.slices = 0;
    const Tensor partial = backend.workspace(Shape{2, plan.slices, channels}, types.compute);
    if (plan.slices > 0) gather_gradients(passes, plan, types, partial.raw(), backend.stream());
    const BackwardSlots slots{slot_of(args.gamma),  slot_of(args.rstd), slot_of(args.dgamma),
                              slot_of(args.dbeta),  args.frozen,        args.accumulate_dgamma,
                              args.accumulate_dbeta};
    visit_compute(types.compute, [&]<class T>(TypeTag<T>) {
      launch_early("batch_norm_backward", finish_gradients_kernel<T>, finish_blocks(channels),
                   finish_threads(plan.slices), backend.stream(), slots, plan, partial.data<T>(),
                   coefficients.data<T>());
    });
  }
  if (passes.dx.defined() || passes.dresidual.defined())
    write_backward(passes, 1, rows, types, backend.stream());
}

NormKernels& CudaBackend::norm() { return own<CudaNorm>(kernels_.norm); }

}  // namespace tandem::cuda
