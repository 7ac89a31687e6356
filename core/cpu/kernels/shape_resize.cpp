// Resizing of channels-last images. Source coordinates equal those of PyTorch's interpolate: nearest takes
// floor(i · r) in f32; bilinear maps i to i·(in-1)/(out-1) with aligned corners and to max(0, (i+½)·r - ½)
// otherwise. r is in/out, or 1/scale if a scale is given.
//
// Backward is parallel over rows of the input gradient. Each row sums over the output rows that read it in
// ascending order, so results do not depend on the number of threads.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/convert.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/shape.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

constexpr Index kParallelPixels = Index{1} << 14;  // elements of the larger image

// Output position i reads near·(1-weight) + far·weight.
template <class C>
struct Tap {
  Index near = 0, far = 0;
  C weight = 0;
};

// Input pixels per output pixel.
template <class C>
C ratio(Index in, Index out, double scale) {
  return scale > 0.0 ? static_cast<C>(1.0 / scale) : static_cast<C>(in) / static_cast<C>(out);
}

// Taps along `axis`; 0 is height.
template <class C>
std::vector<Tap<C>> taps(Index in, Index out, const ResizeOptions& options, int axis) {
  const double scale = options.scale[static_cast<std::size_t>(axis)];
  std::vector<Tap<C>> result(static_cast<std::size_t>(out));
  for (Index i = 0; i < out; ++i) {
    Tap<C>& tap = result[static_cast<std::size_t>(i)];
    if (options.mode == ResizeMode::nearest) {
      const float at = static_cast<float>(i) * ratio<float>(in, out, scale);
      tap.near = tap.far = std::min(static_cast<Index>(std::floor(at)), in - 1);
      continue;
    }
    C at;
    if (options.align_corners) {
      at = out > 1 ? static_cast<C>(i) * (static_cast<C>(in - 1) / static_cast<C>(out - 1)) : C(0);
    } else {
      at = std::max(C(0), (static_cast<C>(i) + C(0.5)) * ratio<C>(in, out, scale) - C(0.5));
    }
    tap.near = std::min(static_cast<Index>(at), in - 1);
    tap.far = std::min(tap.near + 1, in - 1);
    tap.weight = std::clamp(at - static_cast<C>(tap.near), C(0), C(1));
  }
  return result;
}

struct Extents {
  Index images, in_height, in_width, out_height, out_width, channels;
};

Extents extents_of(const Tensor& in, const Tensor& out) {
  return {in.size(0), in.size(1), in.size(2), out.size(1), out.size(2), in.size(3)};
}

// Two rows of an image as compute values: in place if stored so, else widened. Converted rows are kept,
// because the next output row often reads them again.
template <class C, class X>
class RowPair {
 public:
  explicit RowPair(Index width) : width_(width) {
    if constexpr (!std::is_same_v<C, X>) {
      for (auto& held : held_) held.resize(static_cast<std::size_t>(width));
    }
  }

  std::array<const C*, 2> operator()(const X* upper, const X* lower) {
    if constexpr (std::is_same_v<C, X>) {
      return {upper, lower};
    } else {
      if (of_[1] == upper) {
        std::swap(of_[0], of_[1]);
        std::swap(held_[0], held_[1]);
      }
      take(upper, 0);
      if (lower == upper) return {held_[0].data(), held_[0].data()};
      take(lower, 1);
      return {held_[0].data(), held_[1].data()};
    }
  }

 private:
  void take(const X* row, std::size_t place) {
    if (of_[place] == row) return;
    load_block(row, held_[place].data(), width_);
    of_[place] = row;
  }

  Index width_;
  std::array<std::vector<C>, 2> held_;
  std::array<const X*, 2> of_{};
};

// Calls compute(C*) for a row of `width` elements and stores it as Y.
template <class C, class Y, class Compute>
void write_row(Y* to, std::vector<C>& held, Index width, const Compute& compute) {
  if constexpr (std::is_same_v<C, Y>) {
    compute(to);
  } else {
    held.resize(static_cast<std::size_t>(width));
    compute(held.data());
    store_block(held.data(), to, width);
  }
}

template <class C>
void blend_rows(const std::array<const C*, 2>& rows, C weight, const std::vector<Tap<C>>& columns,
                Index channels, C* to) {
  const auto [upper, lower] = rows;
  for (const Tap<C>& h : columns) {
    const Index near = h.near * channels, far = h.far * channels;
    for (Index c = 0; c < channels; ++c) {
      const C top = (C(1) - h.weight) * upper[near + c] + h.weight * upper[far + c];
      const C bottom = (C(1) - h.weight) * lower[near + c] + h.weight * lower[far + c];
      to[c] = (C(1) - weight) * top + weight * bottom;
    }
    to += channels;
  }
}

template <class C, class X, class Y>
void resize(const X* x, Y* y, const Extents& e, const ResizeOptions& options) {
  const auto rows = taps<C>(e.in_height, e.out_height, options, 0);
  const auto columns = taps<C>(e.in_width, e.out_width, options, 1);
  const Index in_row = e.in_width * e.channels, out_row = e.out_width * e.channels;
  parallel_ranges(e.images * e.out_height * out_row >= kParallelPixels, e.images * e.out_height,
                  [&](Range range) {
                    RowPair<C, X> read(in_row);
                    std::vector<C> held;
                    for (Index line = range.first; line < range.last; ++line) {
                      const Tap<C>& v = rows[static_cast<std::size_t>(line % e.out_height)];
                      const X* image = x + line / e.out_height * e.in_height * in_row;
                      const X *upper = image + v.near * in_row, *lower = image + v.far * in_row;
                      Y* to = y + line * out_row;
                      if (options.mode == ResizeMode::nearest) {
                        for (const Tap<C>& h : columns) {
                          for (Index c = 0; c < e.channels; ++c)
                            to[c] = convert<Y>(upper[h.near * e.channels + c]);
                          to += e.channels;
                        }
                        continue;
                      }
                      write_row(to, held, out_row, [&](C* line_of) {
                        blend_rows(read(upper, lower), v.weight, columns, e.channels, line_of);
                      });
                    }
                  });
}

// sum [in_width·channels] += weight · one row of output gradients, scattered to the columns it was read from.
template <class C>
void spread_row(const C* dy, C weight, const std::vector<Tap<C>>& columns, Index channels, C* sum) {
  for (std::size_t j = 0; j < columns.size(); ++j, dy += channels) {
    const Tap<C>& h = columns[j];
    C *near = sum + h.near * channels, *far = sum + h.far * channels;
    const C near_weight = weight * (C(1) - h.weight), far_weight = weight * h.weight;
    for (Index c = 0; c < channels; ++c) near[c] += near_weight * dy[c];
    if (h.weight != C(0)) {
      for (Index c = 0; c < channels; ++c) far[c] += far_weight * dy[c];
    }
  }
}

template <class C, class X, class Y>
void resize_backward(const Y* dy, X* dx, const Extents& e, const ResizeOptions& options) {
  const auto rows = taps<C>(e.in_height, e.out_height, options, 0);
  const auto columns = taps<C>(e.in_width, e.out_width, options, 1);
  const Index in_row = e.in_width * e.channels, out_row = e.out_width * e.channels;
  parallel_ranges(
      e.images * e.out_height * out_row >= kParallelPixels, e.images * e.in_height, [&](Range range) {
        std::vector<C> sum(static_cast<std::size_t>(in_row));
        RowPair<C, Y> read(out_row);
        for (Index line = range.first; line < range.last; ++line) {
          const Index image = line / e.in_height, row = line % e.in_height;
          std::fill(sum.begin(), sum.end(), C(0));
          // `near` and `far` ascend with the output row, so the readers of an input row form a range.
          const auto first =
              std::partition_point(rows.begin(), rows.end(), [&](const Tap<C>& t) { return t.far < row; });
          for (auto tap = first; tap != rows.end() && tap->near <= row; ++tap) {
            const C weight =
                (tap->near == row ? C(1) - tap->weight : C(0)) + (tap->far == row ? tap->weight : C(0));
            if (weight == C(0)) continue;
            const Y* from = dy + (image * e.out_height + (tap - rows.begin())) * out_row;
            spread_row(read(from, from)[0], weight, columns, e.channels, sum.data());
          }
          store_block(sum.data(), dx + line * in_row, in_row);
        }
      });
}

}  // namespace

void CpuShape::resize2d(const Tensor& x, const Tensor& y, const ResizeOptions& options) {
  if (y.numel() == 0) return;
  visit_floating(x.dtype(), [&]<class X>(TypeTag<X>) {
    visit_floating(y.dtype(), [&]<class Y>(TypeTag<Y>) {
      using C = std::conditional_t<std::is_same_v<X, double> || std::is_same_v<Y, double>, double, float>;
      resize<C>(x.data<X>(), y.data<Y>(), extents_of(x, y), options);
    });
  });
}

void CpuShape::resize2d_backward(const Tensor& dy, const Tensor& dx, const ResizeOptions& options) {
  if (dx.numel() == 0) return;
  visit_floating(dx.dtype(), [&]<class X>(TypeTag<X>) {
    visit_floating(dy.dtype(), [&]<class Y>(TypeTag<Y>) {
      using C = std::conditional_t<std::is_same_v<X, double> || std::is_same_v<Y, double>, double, float>;
      resize_backward<C>(dy.data<Y>(), dx.data<X>(), extents_of(dx, dy), options);
    });
  });
}

}  // namespace tandem::cpu::TANDEM_LEVEL
