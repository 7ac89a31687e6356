#include <algorithm>

#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/conv.h"
#include "core/cpu/kernels/gemm.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

using onednn::Convolution;

// Calls visit(offset in the image, offset in the columns) for the input channels of one group under every tap
// of every output position. Taps in the padding get image offset -1. Columns are [OH·OW, KH·KW·I].
template <class Visit>
void for_each_tap(const Convolution& p, Index group, Visit&& visit) {
  const Index channels = p.channels / p.options.groups;
  parallel_for(true, p.out_height, [&](Index oy) {
    for (Index ox = 0; ox < p.out_width; ++ox) {
      for (Index ky = 0; ky < p.kernel_height; ++ky) {
        for (Index kx = 0; kx < p.kernel_width; ++kx) {
          const Index iy = oy * p.options.stride[0] - p.options.padding[0] + ky * p.options.dilation[0];
          const Index ix = ox * p.options.stride[1] - p.options.padding[1] + kx * p.options.dilation[1];
          const bool inside = iy >= 0 && iy < p.height && ix >= 0 && ix < p.width;
          visit(inside ? (iy * p.width + ix) * p.channels + group * channels : Index{-1},
                ((oy * p.out_width + ox) * p.kernel_height * p.kernel_width + ky * p.kernel_width + kx) *
                    channels);
        }
      }
    }
  });
}

template <class T>
void gather(const Convolution& p, Index group, const T* image, T* columns) {
  const Index channels = p.channels / p.options.groups;
  for_each_tap(p, group, [=](Index from, Index to) {
    if (from < 0) {
      std::fill_n(columns + to, channels, T(0));
    } else {
      std::copy_n(image + from, channels, columns + to);
    }
  });
}

// col2im: adds the columns to the image on one thread, because output rows share input rows.
template <class T>
void scatter(const Convolution& p, Index group, const T* columns, T* image) {
  const Index channels = p.channels / p.options.groups;
  for (Index oy = 0; oy < p.out_height; ++oy) {
    for (Index ox = 0; ox < p.out_width; ++ox) {
      for (Index ky = 0; ky < p.kernel_height; ++ky) {
        for (Index kx = 0; kx < p.kernel_width; ++kx) {
          const Index iy = oy * p.options.stride[0] - p.options.padding[0] + ky * p.options.dilation[0];
          const Index ix = ox * p.options.stride[1] - p.options.padding[1] + kx * p.options.dilation[1];
          if (iy < 0 || iy >= p.height || ix < 0 || ix >= p.width) continue;
          T* to = image + (iy * p.width + ix) * p.channels + group * channels;
          const T* from = columns + ((oy * p.out_width + ox) * p.kernel_height * p.kernel_width +
                                     ky * p.kernel_width + kx) *
                                        channels;
          for (Index c = 0; c < channels; ++c) to[c] += from[c];
        }
      }
    }
  }
}

// Matrices of one image and group: taps K = KH·KW·I, positions P = OH·OW, outputs O. Filter [O,K] and output
// [P,O] are ranges of the tensors; columns [P,K] are workspace.
template <class T>
struct Matrices {
  explicit Matrices(const Convolution& problem) : p(problem), columns(workspace<T>({positions, taps})) {}

  const Convolution& p;
  const Index taps = p.kernel_height * p.kernel_width * (p.channels / p.options.groups);
  const Index positions = p.out_height * p.out_width;
  const Index outputs = p.out_channels / p.options.groups;
  const Tensor columns;

  T* filter(const Tensor& w, Index group) const { return w.data<T>() + group * outputs * taps; }
  T* output(const Tensor& y, Index image, Index group) const {
    return y.data<T>() + image * positions * p.out_channels + group * outputs;
  }
  T* input(const Tensor& x, Index image) const {
    return x.data<T>() + image * p.height * p.width * p.channels;
  }
};

template <class T>
void forward(const Convolution& p, const Tensor& x, const Tensor& filter, const Tensor& bias,
             const Tensor& y) {
  const Matrices<T> m(p);
  T* columns = m.columns.template data<T>();
  for (Index n = 0; n < p.batch; ++n) {
    for (Index g = 0; g < p.options.groups; ++g) {
      gather(p, g, m.input(x, n), columns);
      T* out = m.output(y, n, g);
      for (Index i = 0; bias.defined() && i < m.positions; ++i)
        std::copy_n(bias.data<T>() + g * m.outputs, m.outputs, out + i * p.out_channels);
      gemm(m.positions, m.outputs, m.taps, Operand<T>{columns, m.taps},
           Operand<T>{m.filter(filter, g), m.taps, true}, out, p.out_channels, bias.defined());
    }
  }
}

template <class T>
void input_gradient(const Convolution& p, const Tensor& dy, const Tensor& filter, const Tensor& dx) {
  const Matrices<T> m(p);
  T* columns = m.columns.template data<T>();
  std::fill_n(dx.data<T>(), dx.numel(), T(0));
  for (Index n = 0; n < p.batch; ++n) {
    for (Index g = 0; g < p.options.groups; ++g) {
      gemm(m.positions, m.taps, m.outputs, Operand<T>{m.output(dy, n, g), p.out_channels},
           Operand<T>{m.filter(filter, g), m.taps}, columns, m.taps, false);
      scatter(p, g, columns, m.input(dx, n));
    }
  }
}

template <class T>
void filter_gradient(const Convolution& p, const Tensor& x, const Tensor& dy, const Tensor& dfilter) {
  const Matrices<T> m(p);
  T* columns = m.columns.template data<T>();
  std::fill_n(dfilter.data<T>(), dfilter.numel(), T(0));
  for (Index n = 0; n < p.batch; ++n) {
    for (Index g = 0; g < p.options.groups; ++g) {
      gather(p, g, m.input(x, n), columns);
      gemm(m.outputs, m.taps, m.positions, Operand<T>{m.output(dy, n, g), p.out_channels, true},
           Operand<T>{columns, m.taps}, m.filter(dfilter, g), m.taps, true);
    }
  }
}

}  // namespace

void generic_conv2d(const Convolution& p, const Tensor& x, const Tensor& filter, const Tensor& bias,
                    const Tensor& y) {
  if (y.dtype() == DType::f64) return forward<double>(p, x, filter, bias, y);
  forward<float>(p, x, filter, bias, y);
}

void generic_input_gradient(const Convolution& p, const Tensor& dy, const Tensor& filter, const Tensor& dx) {
  if (dx.dtype() == DType::f64) return input_gradient<double>(p, dy, filter, dx);
  input_gradient<float>(p, dy, filter, dx);
}

void generic_filter_gradient(const Convolution& p, const Tensor& x, const Tensor& dy, const Tensor& dfilter) {
  if (dfilter.dtype() == DType::f64) return filter_gradient<double>(p, x, dy, dfilter);
  filter_gradient<float>(p, x, dy, dfilter);
}

}  // namespace tandem::cpu::TANDEM_LEVEL
