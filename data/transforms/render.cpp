#include "data/transforms/render.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/kernels/image_formulas.h"
#include "data/dataset.h"

namespace tandem::datasets {

Rect ImageView::to_scaled(const Rect& rect) const {
  Rect result = rect;
  result.top = flipped ? window.bottom() - rect.bottom() : window.top + rect.top;
  result.left = mirrored ? window.right() - rect.right() : window.left + rect.left;
  return result;
}

Rect ImageView::to_output(const Rect& rect) const {
  Rect result = rect;
  result.top = flipped ? window.bottom() - rect.bottom() : rect.top - window.top;
  result.left = mirrored ? window.right() - rect.right() : rect.left - window.left;
  return result;
}

namespace {

using kernels::normalised;

// ---- rows: pixel·scale + offset

// Period of three channels: a whole number of vectors.
constexpr Index kPeriod = 48;

template <class T>
void affine_row(const T* from, Index pixels, const Affine& affine, float* to) {
  const Index channels = affine.channels();
  const Index count = pixels * channels;
  if (channels == 1) {
    const float scale = affine.scale[0], offset = affine.offset[0];
    for (Index i = 0; i < count; ++i) to[i] = normalised(static_cast<float>(from[i]), scale, offset);
  } else if (channels == 3) {
    std::array<float, kPeriod> scale, offset;
    for (Index i = 0; i < kPeriod; ++i) {
      scale[i] = affine.scale[i % 3];
      offset[i] = affine.offset[i % 3];
    }
    Index i = 0;
    for (; i + kPeriod <= count; i += kPeriod) {
      for (Index j = 0; j < kPeriod; ++j)
        to[i + j] = normalised(static_cast<float>(from[i + j]), scale[j], offset[j]);
    }
    for (Index j = 0; i + j < count; ++j)
      to[i + j] = normalised(static_cast<float>(from[i + j]), scale[j], offset[j]);
  } else {
    for (Index x = 0; x < pixels; ++x) {
      for (Index c = 0; c < channels; ++c) {
        to[x * channels + c] =
            normalised(static_cast<float>(from[x * channels + c]), affine.scale[c], affine.offset[c]);
      }
    }
  }
}

// The same with pixels in reverse order.
template <class T>
void affine_row_mirrored(const T* from, Index pixels, const Affine& affine, float* to) {
  const Index channels = affine.channels();
  if (channels == 1) {
    const float scale = affine.scale[0], offset = affine.offset[0];
    for (Index x = 0; x < pixels; ++x)
      to[x] = normalised(static_cast<float>(from[pixels - 1 - x]), scale, offset);
  } else if (channels == 3) {
    const float s0 = affine.scale[0], s1 = affine.scale[1], s2 = affine.scale[2];
    const float o0 = affine.offset[0], o1 = affine.offset[1], o2 = affine.offset[2];
    const T* last = from + 3 * (pixels - 1);
    for (Index x = 0; x < pixels; ++x) {
      to[3 * x] = normalised(static_cast<float>(last[-3 * x]), s0, o0);
      to[3 * x + 1] = normalised(static_cast<float>(last[-3 * x + 1]), s1, o1);
      to[3 * x + 2] = normalised(static_cast<float>(last[-3 * x + 2]), s2, o2);
    }
  } else {
    for (Index x = 0; x < pixels; ++x) {
      const T* pixel = from + (pixels - 1 - x) * channels;
      for (Index c = 0; c < channels; ++c) {
        to[x * channels + c] = normalised(static_cast<float>(pixel[c]), affine.scale[c], affine.offset[c]);
      }
    }
  }
}

template <class T>
void write_row(const T* from, Index pixels, const Affine& affine, bool mirrored, float* to) {
  if (mirrored) {
    affine_row_mirrored(from, pixels, affine, to);
  } else {
    affine_row(from, pixels, affine, to);
  }
}

// Fills pixels outside the image.
void fill_row(const ImageView& view, Index pixels, const Affine& affine, float* to) {
  const Index channels = affine.channels();
  for (Index x = 0; x < pixels; ++x) {
    for (Index c = 0; c < channels; ++c)
      to[x * channels + c] =
          view.fill_mean ? affine.hole[c] : normalised(view.fill, affine.scale[c], affine.offset[c]);
  }
}

// ---- the window's part in the scaled image

struct Span {
  Index first, count;  // in scaled pixels
};

Span inside(Index first, Index count, Index extent) {
  const Index begin = std::clamp<Index>(first, 0, extent);
  const Index end = std::clamp<Index>(first + count, 0, extent);
  return {begin, end - begin};
}

// Calls write(scaled_row, to) for each output row with visible pixels, which begin at `to`; fills the rest.
template <class WriteRow>
void for_each_row(const ImageView& view, const Affine& affine, float* out, const WriteRow& write) {
  const Index channels = affine.channels(), width = view.window.width;
  const Span columns = inside(view.window.left, width, view.scaled_width);
  const Index before = columns.count == 0 ? width : columns.first - view.window.left;
  const Index after = width - before - columns.count;
  const Index left = view.mirrored ? after : before;
  for (Index y = 0; y < view.window.height; ++y) {
    float* to = out + y * width * channels;
    const Index row = view.flipped ? view.window.bottom() - 1 - y : view.window.top + y;
    if (row < 0 || row >= view.scaled_height || columns.count == 0) {
      fill_row(view, width, affine, to);
      continue;
    }
    fill_row(view, left, affine, to);
    write(row, to + left * channels);
    fill_row(view, width - left - columns.count, affine, to + (left + columns.count) * channels);
  }
}

template <class T>
void copy_view(const T* pixels, const PixelSource& source, const ImageView& view, const Affine& affine,
               float* out) {
  const Span columns = inside(view.window.left, view.window.width, view.scaled_width);
  for_each_row(view, affine, out, [&](Index row, float* to) {
    const T* from = pixels + ((view.support.top + row) * source.width + view.support.left + columns.first) *
                                 source.channels;
    write_row(from, columns.count, affine, view.mirrored, to);
  });
}

// ---- resampling

// Triangle-filter weights of `outputs`, positions of an axis resampled from `in` to `out`: output o has
// `taps` weights from o·taps on, for source positions from first_tap[o] on. Returns `taps`.
Index filter_weights(Index in, Index out, bool antialias, Span outputs, std::vector<float>& weights,
                     std::vector<Index>& first_tap) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double radius = antialias ? std::max(scale, 1.0) : 1.0;
  const Index taps = std::min<Index>(in, 2 * static_cast<Index>(std::ceil(radius)) + 1);
  weights.assign(static_cast<std::size_t>(outputs.count * taps), 0.0F);
  first_tap.resize(static_cast<std::size_t>(outputs.count));
  for (Index o = 0; o < outputs.count; ++o) {
    const double centre = (static_cast<double>(outputs.first + o) + 0.5) * scale;
    const Index begin = std::max<Index>(0, static_cast<Index>(std::floor(centre - radius + 0.5)));
    const Index end = std::min<Index>(in, static_cast<Index>(std::floor(centre + radius + 0.5)));
    float* weight = weights.data() + o * taps;
    double sum = 0;
    for (Index k = begin; k < end; ++k) {
      sum += std::max(0.0, 1.0 - std::abs((static_cast<double>(k) + 0.5 - centre) / radius));
    }
    // All taps are in the source, so that they may be read.
    first_tap[o] = std::min(begin, in - taps);
    for (Index k = begin; k < end; ++k) {
      const double value = std::max(0.0, 1.0 - std::abs((static_cast<double>(k) + 0.5 - centre) / radius));
      weight[k - first_tap[o]] = static_cast<float>(value / sum);
    }
  }
  return taps;
}

template <Index kChannels>
void resample_columns(const float* row, const std::vector<float>& weights, const std::vector<Index>& first,
                      Index taps, Index channels, float* to) {
  const Index count = kChannels ? kChannels : channels;
  for (std::size_t x = 0; x < first.size(); ++x) {
    const float* weight = weights.data() + x * static_cast<std::size_t>(taps);
    const float* pixel = row + first[x] * count;
    for (Index c = 0; c < count; ++c) to[static_cast<Index>(x) * count + c] = 0;
    for (Index k = 0; k < taps; ++k) {
      for (Index c = 0; c < count; ++c)
        to[static_cast<Index>(x) * count + c] += weight[k] * pixel[k * count + c];
    }
  }
}

template <class T>
void resample_view(const T* pixels, const PixelSource& source, const ImageView& view, const Affine& affine,
                   float* out, RenderScratch& scratch) {
  const Index channels = source.channels;
  const Span columns = inside(view.window.left, view.window.width, view.scaled_width);
  const Span rows = inside(view.window.top, view.window.height, view.scaled_height);
  const Index column_taps = filter_weights(view.support.width, view.scaled_width, view.antialias, columns,
                                           scratch.column_weights, scratch.column_first);
  const Index row_taps = filter_weights(view.support.height, view.scaled_height, view.antialias, rows,
                                        scratch.row_weights, scratch.row_first);
  // Only the source columns that output columns need.
  const Index left = columns.count ? scratch.column_first.front() : 0;
  const Index right = columns.count ? scratch.column_first.back() + column_taps : 0;
  for (Index& first : scratch.column_first) first -= left;
  const Index line = (right - left) * channels;
  scratch.rows.resize(static_cast<std::size_t>(line + columns.count * channels));
  float* blended = scratch.rows.data();
  float* shown = blended + line;

  for_each_row(view, affine, out, [&](Index row, float* to) {
    const float* weight = scratch.row_weights.data() + (row - rows.first) * row_taps;
    const Index top = view.support.top + scratch.row_first[row - rows.first];
    std::fill_n(blended, line, 0.0F);
    for (Index k = 0; k < row_taps; ++k) {
      if (weight[k] == 0) continue;
      const T* from = pixels + ((top + k) * source.width + view.support.left + left) * channels;
      for (Index i = 0; i < line; ++i) blended[i] += weight[k] * static_cast<float>(from[i]);
    }
    const auto resample = channels == 1   ? resample_columns<1>
                          : channels == 3 ? resample_columns<3>
                                          : resample_columns<0>;
    resample(blended, scratch.column_weights, scratch.column_first, column_taps, channels, shown);
    write_row(shown, columns.count, affine, view.mirrored, to);
  });
}

void cut_holes(const ImageView& view, const Affine& affine, float* out) {
  const Index channels = affine.channels();
  for (int h = 0; h < view.hole_count; ++h) {
    const Rect hole = view.to_output(view.holes[h]);
    const Index top = std::max<Index>(hole.top, 0), bottom = std::min(hole.bottom(), view.window.height);
    const Index left = std::max<Index>(hole.left, 0), right = std::min(hole.right(), view.window.width);
    for (Index y = top; y < bottom; ++y) {
      for (Index x = left; x < right; ++x) {
        std::copy_n(affine.hole.data(), channels, out + (y * view.window.width + x) * channels);
      }
    }
  }
}

// Nearest of `in` positions to each of `count` of `out` from `first` on: the one whose cell contains the
// centre. -1 outside.
std::vector<Index> nearest(Index in, Index out, Index first, Index count, bool reversed) {
  std::vector<Index> positions;
  positions.reserve(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) {
    const Index at = reversed ? first + count - 1 - i : first + i;
    positions.push_back(at < 0 || at >= out ? -1 : (2 * at + 1) * in / (2 * out));
  }
  return positions;
}

}  // namespace

void render(const PixelSource& source, const ImageView& view, const Affine& affine, float* out,
            RenderScratch& scratch) {
  const auto run = [&](const auto* pixels) {
    if (view.resampled()) {
      resample_view(pixels, source, view, affine, out, scratch);
    } else {
      copy_view(pixels, source, view, affine, out);
    }
  };
  if (source.bytes) {
    run(source.bytes);
  } else {
    run(source.floats);
  }
  cut_holes(view, affine, out);
}

void resize_part(const Tensor& image, const Rect& part, Index height, Index width, std::vector<float>& out) {
  thread_local RenderScratch scratch;
  PixelSource source;
  source.bytes = image.data<std::uint8_t>();
  source.height = image.size(0);
  source.width = image.size(1);
  source.channels = image.size(2);
  ImageView view = ImageView::whole(height, width);
  view.support = part;
  out.resize(static_cast<std::size_t>(height * width * source.channels));
  render(source, view, Affine(source.channels), out.data(), scratch);
}

void render_mask(const MaskSource& source, const ImageView& view, std::uint8_t* out) {
  const Rect& window = view.window;
  const std::vector<Index> rows =
      nearest(view.support.height, view.scaled_height, window.top, window.height, view.flipped);
  const std::vector<Index> columns =
      nearest(view.support.width, view.scaled_width, window.left, window.width, view.mirrored);
  for (const Index row : rows) {
    const std::uint8_t* from = source.indices + (view.support.top + row) * source.width + view.support.left;
    for (const Index column : columns) *out++ = row < 0 || column < 0 ? kIgnored : from[column];
  }
}

}  // namespace tandem::datasets
