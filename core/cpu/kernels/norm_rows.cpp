// Layer norm, RMS norm and group norm. Mean and variance take two passes over cached data. Short runs are
// summed in the compute type, their totals in f64.
#include <cmath>

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/dropout_mask.h"
#include "core/cpu/kernels/norm_kernels.h"
#include "core/error.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

constexpr Index kRowsPerFlush = 64;

// Output memory for elements that put() stores afterwards.
template <class T>
T* place(const Tensor& y, Index first, T* buffer) {
  return y.dtype() == dtype_of<T>() ? y.data<T>() + first : buffer;
}
template <class T>
void put(const T* values, const Tensor& y, Index first, Index count) {
  if (y.dtype() != dtype_of<T>()) store_block(values, y.raw(), y.dtype(), first, count);
}

// A parameter as an array of T, filled with `absent` if undefined.
template <class T>
const T* parameter(const Tensor& p, Index count, T absent, Tensor& memory) {
  if (p.defined() && p.dtype() == dtype_of<T>()) return p.data<T>();
  memory = workspace<T>({count});
  T* values = memory.data<T>();
  if (p.defined()) {
    load_block(p.raw(), p.dtype(), 0, values, count);
  } else {
    std::fill_n(values, count, absent);
  }
  return values;
}

template <class T, class Term>
double sum_of(Index count, Term&& term) {
  double total = 0.0;
  for (Index start = 0; start < count; start += kBlock) {
    const Index end = std::min(count, start + kBlock);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index i = start; i < end; ++i) sum += term(i);
    total += static_cast<double>(sum);
  }
  return total;
}

// Runs body(thread, range of [0, count)) on a team.
template <class Body>
void over_ranges(Index count, Index elements, Body&& body) {
  on_team(elements, [&](int thread, int threads) { body(thread, part_of(count, thread, threads)); });
}

// Per-thread column sums of dy·normalised and dy, which become dgamma and dbeta.
template <class T>
class ParameterGradients {
 public:
  ParameterGradients(Index width, int threads)
      : width_(width),
        threads_(threads),
        wide_(workspace<double>({2 * width * threads})),
        held_(workspace<T>({2 * width * threads})) {
    std::fill_n(wide_.template data<double>(), 2 * width * threads, 0.0);
    std::fill_n(held_.template data<T>(), 2 * width * threads, T(0));
  }

  T* gamma(int thread) const { return held_.template data<T>() + 2 * width_ * thread; }
  T* beta(int thread) const { return gamma(thread) + width_; }
  double* wide(int thread) const { return wide_.template data<double>() + 2 * width_ * thread; }

  void flush(int thread) const {
    T* held = gamma(thread);
    double* sums = wide(thread);
    for (Index i = 0; i < 2 * width_; ++i) {
      sums[i] += static_cast<double>(held[i]);
      held[i] = T(0);
    }
  }

  void write(const Tensor& dgamma, const Tensor& dbeta) const {
    double* total = wide(0);
    for (int t = 1; t < threads_; ++t) {
      for (Index i = 0; i < 2 * width_; ++i) total[i] += wide(t)[i];
    }
    if (dgamma.defined()) store_block(total, dgamma.raw(), dgamma.dtype(), 0, width_);
    if (dbeta.defined()) store_block(total + width_, dbeta.raw(), dbeta.dtype(), 0, width_);
  }

 private:
  Index width_;
  int threads_;
  Tensor wide_, held_;
};

// ---- layer norm

template <class T>
struct PlainRows {
  const Tensor& x;
  // The row to normalise, which begins at element `first`. `memory` has room for two rows.
  const T* read(Index first, Index width, T* memory) const { return fetch(x, first, width, memory); }
};

// residual + dropout(branch), stored as `sum`.
template <class T>
struct ResidualRows {
  const ResidualNormForward& args;
  DropoutMask mask{args.key, args.p};

  const T* read(Index first, Index width, T* memory) const {
    const Tensor& sum = args.norm.x;
    const T* residual = fetch(args.residual, first, width, memory);
    const T* branch = fetch(args.branch, first, width, memory + width);
    if (mask.drops()) branch = mask.apply(branch, first, width, memory + width);
    T* out = place(sum, first, memory);
#pragma omp simd
    for (Index i = 0; i < width; ++i) out[i] = residual[i] + branch[i];
    put(out, sum, first, width);
    return fetch(sum, first, width, memory);  // the rounded values, which backward reads
  }
};

template <class T, class Rows>
void layer_norm_forward(const RowNormForward& args, const Rows& source) {
  const auto& [x, gamma, beta, y, mean, rstd, eps, groups] = args;
  const Index rows = rstd.numel(), width = x.numel() / rows;
  const bool centred = mean.defined();
  Tensor gamma_memory, beta_memory;
  const T* g = parameter<T>(gamma, width, T(1), gamma_memory);
  const T* b = parameter<T>(beta, width, T(0), beta_memory);
  const Tensor buffers = workspace<T>({2 * width * team_size(x.numel())});
  over_ranges(rows, x.numel(), [&](int thread, Range range) {
    T* buffer = buffers.data<T>() + 2 * width * thread;
    for (Index row = range.first; row < range.last; ++row) {
      const T* in = source.read(row * width, width, buffer);
      double m = 0.0;
      if (centred) {
        // Differences from the first element avoid cancellation in rows with a large mean.
        const T first = in[0];
        m = static_cast<double>(first) +
            sum_of<T>(width, [&](Index i) { return in[i] - first; }) / static_cast<double>(width);
        store_block(&m, mean.raw(), mean.dtype(), row, 1);
      }
      const T high = static_cast<T>(m), low = static_cast<T>(m - static_cast<double>(high));
      const double variance = sum_of<T>(width,
                                        [&](Index i) {
                                          const T d = (in[i] - high) - low;
                                          return d * d;
                                        }) /
                              static_cast<double>(width);
      const double r = 1.0 / std::sqrt(variance + eps);
      T* out = place(y, row * width, buffer + width);
      const T scale = static_cast<T>(r);
#pragma omp simd
      for (Index i = 0; i < width; ++i) out[i] = ((in[i] - high) - low) * scale * g[i] + b[i];
      put(out, y, row * width, width);
      store_block(&r, rstd.raw(), rstd.dtype(), row, 1);
    }
  });
}

// The gradient of a row is stored as dx.
template <class T>
struct PlainGradients {
  const Tensor& dx;
  // Memory for the gradient of a row, which finish() stores.
  T* begin(Index first, T* memory) const { return place(dx, first, memory); }
  void finish(T* gradient, Index first, Index width, T*) const { put(gradient, dx, first, width); }
};

// The gradient of a row, with dsum added, is that of the residual; dropped out, that of the branch.
template <class T>
struct ResidualGradients {
  const ResidualNormBackward& args;
  DropoutMask mask{args.key, args.p};

  T* begin(Index, T* memory) const { return memory; }  // dx may be dsum, which is still read
  void finish(T* gradient, Index first, Index width, T* memory) const {
    if (args.dsum.defined()) {
      const T* other = fetch(args.dsum, first, width, memory);
#pragma omp simd
      for (Index i = 0; i < width; ++i) gradient[i] += other[i];
    }
    store_block(gradient, args.norm.dx.raw(), args.norm.dx.dtype(), first, width);
    if (!args.dbranch.defined()) return;
    const T* branch = mask.drops() ? mask.apply(gradient, first, width, gradient) : gradient;
    store_block(branch, args.dbranch.raw(), args.dbranch.dtype(), first, width);
  }
};

template <class T, class Gradients>
void layer_norm_gradients(const RowNormBackward& args, const Gradients& target) {
  const auto& [x, gamma, mean, rstd, dy, dx, dgamma, dbeta, groups] = args;
  const Index rows = rstd.numel(), width = x.numel() / rows;
  const bool centred = mean.defined();
  Tensor gamma_memory;
  const T* g = parameter<T>(gamma, width, T(1), gamma_memory);
  const int threads = team_size(x.numel());
  const Tensor buffers = workspace<T>({3 * width * threads});
  const ParameterGradients<T> gradients(width, threads);
  over_ranges(rows, x.numel(), [&](int thread, Range range) {
    T* buffer = buffers.data<T>() + 3 * width * thread;
    T *sum_gamma = gradients.gamma(thread), *sum_beta = gradients.beta(thread);
    for (Index row = range.first; row < range.last; ++row) {
      const T* in = fetch(x, row * width, width, buffer);
      const T* d = fetch(dy, row * width, width, buffer + width);
      T m = 0, r;
      if (centred) load_block(mean.raw(), mean.dtype(), row, &m, 1);
      load_block(rstd.raw(), rstd.dtype(), row, &r, 1);
      // Sums of the row and of the columns in one pass: totals of dy·gamma and of dy·gamma·normalised.
      double total = 0.0, along = 0.0;
      for (Index start = 0; start < width; start += kBlock) {
        const Index end = std::min(width, start + kBlock);
        T sum = 0, sum_along = 0;
#pragma omp simd reduction(+ : sum, sum_along)
        for (Index i = start; i < end; ++i) {
          const T normalised = (in[i] - m) * r, scaled = d[i] * g[i];
          sum_gamma[i] += d[i] * normalised;
          sum_beta[i] += d[i];
          sum += scaled;
          sum_along += scaled * normalised;
        }
        total += static_cast<double>(sum);
        along += static_cast<double>(sum_along);
      }
      if ((row - range.first) % kRowsPerFlush == kRowsPerFlush - 1) gradients.flush(thread);
      if (!dx.defined()) continue;
      const double n = static_cast<double>(width);
      const T c1 = centred ? static_cast<T>(total / n) : T(0), c2 = static_cast<T>(along / n);
      T* out = target.begin(row * width, buffer + 2 * width);
#pragma omp simd
      for (Index i = 0; i < width; ++i) out[i] = r * (d[i] * g[i] - c1 - (in[i] - m) * r * c2);
      target.finish(out, row * width, width, buffer);
    }
    gradients.flush(thread);
  });
  gradients.write(dgamma, dbeta);
}

// ---- group norm

// A sample is [points, channels]; a group is a range of channels.
struct GroupGeometry {
  Index samples, points, channels, groups;
  Index per_group() const { return channels / groups; }
  double count() const { return static_cast<double>(points * per_group()); }
  Index group_of(Index channel) const { return channel / per_group(); }
};

// A range of groups of one sample: `width` channels from `channel` on, in elements from `base` on.
struct GroupRun {
  Index sample, group, groups, channel, width, base;
};

GroupGeometry geometry_of(const Tensor& x, Index groups) {
  const Index samples = x.size(0), channels = x.size(-1);
  return {samples, x.numel() / (samples * channels), channels, groups};
}

// Runs body(thread, run) on a team. Threads take whole samples if there are enough, else groups.
template <class Body>
void over_groups(const GroupGeometry& s, Index elements, Body&& body) {
  const Index parts = s.samples < team_size(elements) ? s.groups : 1, unit = s.groups / parts;
  over_ranges(s.samples * parts, elements, [&](int thread, Range range) {
    for (Index at = range.first; at < range.last;) {
      const Index sample = at / parts, part = at % parts, count = std::min(range.last - at, parts - part);
      const Index channel = part * unit * s.per_group();
      body(thread, GroupRun{.sample = sample,
                            .group = part * unit,
                            .groups = count * unit,
                            .channel = channel,
                            .width = count * unit * s.per_group(),
                            .base = sample * s.points * s.channels + channel});
      at += count;
    }
  });
}

// Calls row(point) for the points of one sample and adds `held` to the f64 sums every kRowsPerFlush points.
template <class T, class Row>
void column_sums(const GroupGeometry& s, T* held, double* wide, Index columns, Row&& row) {
  std::fill_n(held, columns, T(0));
  std::fill_n(wide, columns, 0.0);
  for (Index point = 0; point < s.points; ++point) {
    row(point);
    if (point % kRowsPerFlush == kRowsPerFlush - 1 || point == s.points - 1) {
      for (Index c = 0; c < columns; ++c) {
        wide[c] += static_cast<double>(held[c]);
        held[c] = T(0);
      }
    }
  }
}

template <class T>
void group_norm_forward(const RowNormForward& args) {
  const auto& [x, gamma, beta, y, mean, rstd, eps, groups] = args;
  const GroupGeometry s = geometry_of(x, groups);
  const Index channels = s.channels;
  Tensor gamma_memory, beta_memory;
  const T* g = parameter<T>(gamma, channels, T(1), gamma_memory);
  const T* b = parameter<T>(beta, channels, T(0), beta_memory);
  const int threads = team_size(x.numel());
  const Tensor narrow = workspace<T>({6 * channels * threads});
  const Tensor wide = workspace<double>({2 * channels * threads});
  over_groups(s, x.numel(), [&](int thread, const GroupRun& run) {
    const Index width = run.width;
    T* in_buffer = narrow.data<T>() + 6 * channels * thread;
    T *out_buffer = in_buffer + channels, *held = out_buffer + channels;
    T *centre = held + channels, *scale = centre + channels, *offset = scale + channels;
    double *sums = wide.data<double>() + 2 * channels * thread, *by_group = sums + channels;
    const T *run_gamma = g + run.channel, *run_beta = b + run.channel;
    const Index first_group = run.sample * groups + run.group;
    const auto row = [&](Index point) { return fetch(x, run.base + point * channels, width, in_buffer); };
    const auto total_by_group = [&] {
      std::fill_n(by_group, run.groups, 0.0);
      for (Index c = 0; c < width; ++c) by_group[s.group_of(c)] += sums[c];
    };
    // Differences from the first element of the group avoid cancellation for large means.
    const T* start = row(0);
    for (Index c = 0; c < width; ++c) centre[c] = start[s.group_of(c) * s.per_group()];
    column_sums(s, held, sums, width, [&](Index point) {
      const T* in = row(point);
      for (Index c = 0; c < width; ++c) held[c] += in[c] - centre[c];
    });
    total_by_group();
    for (Index c = 0; c < width; ++c) {
      const double m = static_cast<double>(centre[c]) + by_group[s.group_of(c)] / s.count();
      centre[c] = static_cast<T>(m);
      offset[c] = static_cast<T>(m - static_cast<double>(centre[c]));
      if (c % s.per_group() == 0) store_block(&m, mean.raw(), mean.dtype(), first_group + s.group_of(c), 1);
    }
    column_sums(s, held, sums, width, [&](Index point) {
      const T* in = row(point);
      for (Index c = 0; c < width; ++c) {
        const T d = (in[c] - centre[c]) - offset[c];
        held[c] += d * d;
      }
    });
    total_by_group();
    for (Index c = 0; c < width; ++c) {
      const double r = 1.0 / std::sqrt(by_group[s.group_of(c)] / s.count() + eps);
      if (c % s.per_group() == 0) store_block(&r, rstd.raw(), rstd.dtype(), first_group + s.group_of(c), 1);
      const double slope = r * static_cast<double>(run_gamma[c]);
      scale[c] = static_cast<T>(slope);
      offset[c] = static_cast<T>(static_cast<double>(run_beta[c]) - static_cast<double>(offset[c]) * slope);
    }
    for (Index point = 0; point < s.points; ++point) {
      const T* in = row(point);
      T* out = place(y, run.base + point * channels, out_buffer);
#pragma omp simd
      for (Index c = 0; c < width; ++c) out[c] = (in[c] - centre[c]) * scale[c] + offset[c];
      put(out, y, run.base + point * channels, width);
    }
  });
}

template <class T>
void group_norm_gradients(const RowNormBackward& args) {
  const auto& [x, gamma, mean, rstd, dy, dx, dgamma, dbeta, groups] = args;
  const GroupGeometry s = geometry_of(x, groups);
  const Index channels = s.channels;
  Tensor gamma_memory;
  const T* g = parameter<T>(gamma, channels, T(1), gamma_memory);
  const int threads = team_size(x.numel());
  const Tensor narrow = workspace<T>({8 * channels * threads});
  const Tensor wide = workspace<double>({4 * channels * threads});
  const ParameterGradients<T> gradients(channels, threads);
  over_groups(s, x.numel(), [&](int thread, const GroupRun& run) {
    const Index width = run.width;
    T* in_buffer = narrow.data<T>() + 8 * channels * thread;
    T *dy_buffer = in_buffer + channels, *out_buffer = dy_buffer + channels, *held = out_buffer + channels;
    T *centre = held + 2 * channels, *slope = centre + channels, *offset = slope + channels;
    double *sums = wide.data<double>() + 4 * channels * thread, *group_sums = sums + 2 * channels;
    const T* run_gamma = g + run.channel;
    const Index first_group = run.sample * groups + run.group;
    const auto rstd_of = [&](Index c) {
      double r;
      load_block(rstd.raw(), rstd.dtype(), first_group + s.group_of(c), &r, 1);
      return r;
    };
    for (Index c = 0; c < width; ++c)
      load_block(mean.raw(), mean.dtype(), first_group + s.group_of(c), centre + c, 1);
    // Σ dy·(x-mean) and Σ dy per channel.
    column_sums(s, held, sums, 2 * width, [&](Index point) {
      const T* in = fetch(x, run.base + point * channels, width, in_buffer);
      const T* d = fetch(dy, run.base + point * channels, width, dy_buffer);
      for (Index c = 0; c < width; ++c) {
        held[c] += d[c] * (in[c] - centre[c]);
        held[width + c] += d[c];
      }
    });
    std::fill_n(group_sums, 2 * run.groups, 0.0);
    double* parameter_sums = gradients.wide(thread) + run.channel;
    for (Index c = 0; c < width; ++c) {
      const double r = rstd_of(c), factor = static_cast<double>(run_gamma[c]);
      parameter_sums[c] += sums[c] * r;
      parameter_sums[channels + c] += sums[width + c];
      group_sums[s.group_of(c)] += factor * sums[c] * r;
      group_sums[run.groups + s.group_of(c)] += factor * sums[width + c];
    }
    if (!dx.defined()) return;
    for (Index c = 0; c < width; ++c) {
      const double r = rstd_of(c);
      held[c] = static_cast<T>(r * static_cast<double>(run_gamma[c]));
      slope[c] = static_cast<T>(-r * r * group_sums[s.group_of(c)] / s.count());
      offset[c] = static_cast<T>(-r * group_sums[run.groups + s.group_of(c)] / s.count());
    }
    for (Index point = 0; point < s.points; ++point) {
      const Index start = run.base + point * channels;
      const T* in = fetch(x, start, width, in_buffer);
      const T* d = fetch(dy, start, width, dy_buffer);
      T* out = place(dx, start, out_buffer);
#pragma omp simd
      for (Index c = 0; c < width; ++c)
        out[c] = d[c] * held[c] + ((in[c] - centre[c]) * slope[c] + offset[c]);
      put(out, dx, start, width);
    }
  });
  gradients.write(dgamma, dbeta);
}

// The gradients of parameters for empty x.
void clear(const RowNormBackward& args) {
  for (const Tensor& gradient : {args.dgamma, args.dbeta}) {
    if (gradient.defined()) backend().fill(gradient, 0.0);
  }
}

// Calls visit(TypeTag<double>{}) if a tensor is f64, else visit(TypeTag<float>{}).
template <class Visit>
void visit_arithmetic(std::initializer_list<const Tensor*> tensors, Visit&& visit) {
  const bool f64 = std::any_of(tensors.begin(), tensors.end(),
                               [](const Tensor* t) { return t->defined() && t->dtype() == DType::f64; });
  f64 ? visit(TypeTag<double>{}) : visit(TypeTag<float>{});
}

}  // namespace

void CpuNorm::layer_norm(const RowNormForward& args) {
  if (args.x.numel() == 0) return;
  visit_arithmetic({&args.x, &args.y},
                   [&]<class T>(TypeTag<T>) { layer_norm_forward<T>(args, PlainRows<T>{args.x}); });
}

void CpuNorm::layer_norm_backward(const RowNormBackward& args) {
  if (args.x.numel() == 0) return clear(args);
  visit_arithmetic({&args.x, &args.dy},
                   [&]<class T>(TypeTag<T>) { layer_norm_gradients<T>(args, PlainGradients<T>{args.dx}); });
}

void CpuNorm::residual_norm(const ResidualNormForward& args) {
  const RowNormForward& norm = args.norm;
  if (norm.x.numel() == 0) return;
  visit_arithmetic({&norm.x, &norm.y, &args.branch},
                   [&]<class T>(TypeTag<T>) { layer_norm_forward<T>(norm, ResidualRows<T>{args}); });
}

void CpuNorm::residual_norm_backward(const ResidualNormBackward& args) {
  const RowNormBackward& norm = args.norm;
  if (norm.x.numel() == 0) return clear(norm);
  visit_arithmetic({&norm.x, &norm.dy, &args.dsum},
                   [&]<class T>(TypeTag<T>) { layer_norm_gradients<T>(norm, ResidualGradients<T>{args}); });
}

void CpuNorm::group_norm(const RowNormForward& args) {
  if (args.x.numel() == 0) return;
  visit_arithmetic({&args.x, &args.y}, [&]<class T>(TypeTag<T>) { group_norm_forward<T>(args); });
}

void CpuNorm::group_norm_backward(const RowNormBackward& args) {
  if (args.x.numel() == 0) return clear(args);
  visit_arithmetic({&args.x, &args.dy}, [&]<class T>(TypeTag<T>) { group_norm_gradients<T>(args); });
}

}  // namespace tandem::cpu::TANDEM_LEVEL
