// Group norm: the passes over columns of norm_columns.h, with a finishing block per group and sample.
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

constexpr int kGroupThreads = 128;

// A group is a range of channels of one sample.
struct GroupGeometry {
  Index samples, points, channels, groups, per_group;
};

GroupGeometry geometry_of(const Tensor& x, Index groups) {
  const Index samples = x.size(0), channels = x.size(-1);
  return {samples, x.numel() / (samples * channels), channels, groups, channels / groups};
}

// One block per group and sample.
template <class T>
__global__ void __launch_bounds__(kGroupThreads)
    finish_group_statistics_kernel(ColumnPlan p, GroupGeometry g, const T* partial, Slot gamma, Slot beta,
                                   double eps, Slot mean, Slot rstd, T* coefficients) {
  await_earlier_work();
  __shared__ double shared[kWarp];
  const Index sample = blockIdx.x / g.groups, channel = blockIdx.x % g.groups * g.per_group;
  const Index plane = p.slices * p.channels;
  const T* from = partial + sample * 3 * plane + channel;
  const double origin = static_cast<double>(from[0]);
  double total = 0.0, squares = 0.0;
  for (Index i = threadIdx.x; i < p.slices * g.per_group; i += blockDim.x) {
    const Index slice = i / g.per_group;
    const T* of = from + slice * p.channels + i % g.per_group;
    const double count = static_cast<double>(p.count(slice));
    const double distance = (static_cast<double>(of[0]) - origin) + static_cast<double>(of[plane]);
    total += count * distance;
    squares += static_cast<double>(of[2 * plane]) + count * distance * distance;
  }
  total = block_reduce(total, 0.0, shared, Sum{});
  squares = block_reduce(squares, 0.0, shared, Sum{});
  const double n = static_cast<double>(g.points * g.per_group), middle = origin + total / n;
  const double deviation = squares - total * (total / n);
  const double root = 1.0 / sqrt((deviation < 0.0 ? 0.0 : deviation) / n + eps);  // keeps NaN
  if (threadIdx.x == 0) {
    set_element(mean, blockIdx.x, middle);
    set_element(rstd, blockIdx.x, root);
  }
  const T high = static_cast<T>(middle);
  for (Index c = channel + threadIdx.x; c < channel + g.per_group; c += blockDim.x) {
    const double scale = root * element(gamma, c, 1.0);
    T* to = coefficients + sample * 3 * g.channels + c;
    to[0] = high;
    to[g.channels] = static_cast<T>(scale);
    to[2 * g.channels] = static_cast<T>(element(beta, c, 0.0) - (middle - static_cast<double>(high)) * scale);
  }
}

// Expands mean [samples, groups] to centre [samples, channels].
template <class T>
__global__ void spread_means_kernel(GroupGeometry g, Slot mean, T* centre) {
  await_earlier_work();
  const Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= g.samples * g.channels) return;
  const Index sample = i / g.channels, group = i % g.channels / g.per_group;
  centre[i] = element(mean, sample * g.groups + group, T(0));
}

// One block per group and sample; its warps divide the channels. `parameters` [samples, 2, channels] receives
// each sample's contribution to dgamma and dbeta.
template <class T>
__global__ void __launch_bounds__(kGroupThreads)
    finish_group_gradients_kernel(ColumnPlan p, GroupGeometry g, const T* partial, Slot gamma, Slot rstd,
                                  double* parameters, T* coefficients) {
  await_earlier_work();
  __shared__ double shared[kWarp];
  const Index sample = blockIdx.x / g.groups, channel = blockIdx.x % g.groups * g.per_group;
  const Index plane = p.slices * p.channels, last = channel + g.per_group;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const double root = element(rstd, blockIdx.x, 1.0);
  double first = 0.0, second = 0.0;  // Σ gamma·dy·normalised and Σ gamma·dy, in lane 0 of each warp
  for (Index c = channel + warp; c < last; c += kGroupThreads / kWarp) {
    double sum = 0.0, product = 0.0;
    for (Index slice = lane; slice < p.slices; slice += kWarp) {
      const T* of = partial + sample * 2 * plane + slice * p.channels + c;
      sum += static_cast<double>(of[0]);
      product += static_cast<double>(of[plane]);
    }
    sum = warp_reduce(sum, Sum{});
    product = warp_reduce(product, Sum{}) * root;
    if (lane != 0) continue;
    parameters[sample * 2 * g.channels + c] = product;
    parameters[(sample * 2 + 1) * g.channels + c] = sum;
    const double factor = element(gamma, c, 1.0);
    first += factor * product;
    second += factor * sum;
  }
  __syncwarp();
  first = block_reduce(first, 0.0, shared, Sum{});
  second = block_reduce(second, 0.0, shared, Sum{});
  const double n = static_cast<double>(g.points * g.per_group);
  for (Index c = channel + threadIdx.x; c < last; c += blockDim.x) {
    T* to = coefficients + sample * 3 * g.channels + c;
    to[0] = static_cast<T>(root * element(gamma, c, 1.0));
    to[g.channels] = static_cast<T>(-root * root * first / n);
    to[2 * g.channels] = static_cast<T>(-root * second / n);
  }
}

}  // namespace

void CudaNorm::group_norm(const RowNormForward& args) {
  const auto& [x, gamma, beta, y, mean, rstd, eps, groups] = args;
  if (x.numel() == 0) return;
  const GroupGeometry g = geometry_of(x, groups);
  const ColumnTypes types = column_types({&x, &y}, g.channels);
  const ColumnPlan plan = statistics_plan(g.samples, g.points, g.channels, types, x.dtype());
  const Tensor partial = backend.workspace(Shape{g.samples, 3, plan.slices, g.channels}, types.compute);
  const Tensor coefficients = backend.workspace(Shape{g.samples, 3, g.channels}, types.compute);
  gather_statistics(x, plan, types, partial.raw(), backend.stream());
  visit_compute(types.compute, [&]<class T>(TypeTag<T>) {
    launch_early("group_norm", finish_group_statistics_kernel<T>, g.samples * groups, kGroupThreads,
                 backend.stream(), plan, g, partial.data<T>(), slot_of(gamma), slot_of(beta), eps,
                 slot_of(mean), slot_of(rstd), coefficients.data<T>());
  });
  write_forward({.x = x, .residual = {}, .y = y, .coefficients = coefficients.raw()}, g.samples, g.points,
                types, backend.stream());
}

void CudaNorm::group_norm_backward(const RowNormBackward& args) {
  const auto& [x, gamma, mean, rstd, dy, dx, dgamma, dbeta, groups] = args;
  if (x.numel() == 0) {
    if (dgamma.defined()) backend.fill(dgamma, 0.0);
    if (dbeta.defined()) backend.fill(dbeta, 0.0);
    return;
  }
  const GroupGeometry g = geometry_of(x, groups);
  const ColumnTypes types = column_types({&x, &dy, &dx}, g.channels);
  const ColumnPlan plan = gradient_plan(g.samples, g.points, g.channels, types, x.dtype());
  const Tensor partial = backend.workspace(Shape{g.samples, 2, plan.slices, g.channels}, types.compute);
  const Tensor coefficients = backend.workspace(Shape{g.samples, 3, g.channels}, types.compute);
  const Tensor centre = backend.workspace(Shape{g.samples, g.channels}, types.compute);
  const Tensor parameters = backend.workspace(Shape{g.samples, 2, g.channels}, DType::f64);
  const ColumnBackward passes{.x = x,
                              .dy = dy,
                              .dx = dx,
                              .dresidual = {},
                              .centre = centre.raw(),
                              .coefficients = coefficients.raw()};
  visit_compute(types.compute, [&]<class T>(TypeTag<T>) {
    launch_early("group_norm_backward", spread_means_kernel<T>, ceil_div(centre.numel(), kThreads), kThreads,
                 backend.stream(), g, slot_of(mean), centre.data<T>());
    gather_gradients(passes, plan, types, partial.raw(), backend.stream());
    launch_early("group_norm_backward", finish_group_gradients_kernel<T>, g.samples * groups, kGroupThreads,
                 backend.stream(), plan, g, partial.data<T>(), slot_of(gamma), slot_of(rstd),
                 parameters.data<double>(), coefficients.data<T>());
  });
  if (dgamma.defined() || dbeta.defined())
    finish_parameters<double>(parameters.data<double>(), g.samples, g.channels, dgamma, dbeta,
                              backend.stream());
  if (dx.defined()) write_backward(passes, g.samples, g.points, types, backend.stream());
}

}  // namespace tandem::cuda
