// Rendering of 8-bit records. Each output row is gathered as floats, then normalised and rounded while in L1.
// Rows are independent.
#include "core/kernels/image.h"

#include <algorithm>
#include <vector>

#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/kernels/image_formulas.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

struct Geometry {
  Index height, width;          // of the records
  Index out_height, out_width;  // of the images
  Index channels;
};

// Scale and offset per element of an output row.
struct RowAffine {
  std::vector<float> scale, offset;

  RowAffine(const ImageAffine& affine, const Geometry& g)
      : scale(static_cast<std::size_t>(g.out_width * g.channels)), offset(scale.size()) {
    for (Index x = 0; x < g.out_width; ++x) {
      std::copy_n(affine.scale.data<float>(), g.channels, &scale[x * g.channels]);
      std::copy_n(affine.offset.data<float>(), g.channels, &offset[x * g.channels]);
    }
  }
};

// The pixels [out_width, channels] of `record` shown in row y.
void gather_row(const std::uint8_t* record, const ImageWindow& window, const Geometry& g, Index y,
                float* to) {
  const Index row = kernels::shown_row(window, static_cast<std::int32_t>(y), static_cast<int>(g.out_height));
  const bool inside = row >= 0 && row < g.height;
  const std::uint8_t* from = record + row * g.width * g.channels;
  if (inside && !window.mirrored) {
    const Index left = std::clamp<Index>(-Index{window.left}, 0, g.out_width);
    const Index right = std::clamp<Index>(g.width - window.left, left, g.out_width);
    std::fill_n(to, left * g.channels, window.fill);
    for (Index i = left * g.channels; i < right * g.channels; ++i) {
      to[i] = static_cast<float>(from[window.left * g.channels + i]);
    }
    std::fill_n(to + right * g.channels, (g.out_width - right) * g.channels, window.fill);
    return;
  }
  for (Index x = 0; x < g.out_width; ++x, to += g.channels) {
    const Index column =
        kernels::shown_column(window, static_cast<std::int32_t>(x), static_cast<int>(g.out_width));
    if (inside && column >= 0 && column < g.width) {
      for (Index c = 0; c < g.channels; ++c) to[c] = static_cast<float>(from[column * g.channels + c]);
    } else {
      std::fill_n(to, g.channels, window.fill);
    }
  }
}

template <class T>
void render_rows(const std::uint8_t* records, const ImageWindow* windows, const RowAffine& affine,
                 const Geometry& g, Index rows, T* y) {
  const auto line = static_cast<Index>(affine.scale.size());
  parallel_ranges(rows * line >= kParallelElements, rows, [&](Range range) {
    std::vector<float> row(affine.scale.size());
    for (Index i = range.first; i < range.last; ++i) {
      const Index image = i / g.out_height;
      gather_row(records + image * g.height * g.width * g.channels, windows[image], g, i % g.out_height,
                 row.data());
      for (Index k = 0; k < line; ++k) {
        row[k] = kernels::normalised(row[k], affine.scale[k], affine.offset[k]);
      }
      store_block(row.data(), y + i * line, line);
    }
  });
}

struct CpuImage final : ImageKernels {
  void render_images(const Tensor& records, const Tensor& windows, const ImageAffine& affine,
                     const Tensor& y) override {
    if (y.numel() == 0) return;
    const Geometry g{records.size(1), records.size(2), y.size(1), y.size(2), y.size(3)};
    const RowAffine row_affine(affine, g);
    visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
      render_rows(records.data<std::uint8_t>(), static_cast<const ImageWindow*>(windows.raw()), row_affine, g,
                  y.size(0) * g.out_height, y.data<T>());
    });
  }
};

}  // namespace

ImageKernels& CpuBackend::image() { return instance<CpuImage>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
