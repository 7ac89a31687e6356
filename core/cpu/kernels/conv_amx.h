// Convolutions of bf16 and f16 in AMX tiles, for CPUs of level `amx`. Sums are f32 and are rounded once on
// store.
//
// Images are copied into the planes of core/cpu/conv_planes.h, in layouts whose tiles are 16 cache lines: a
// line of a tile that crosses those of the cache takes several times as long.
#pragma once

#include "core/cpu/kernels/bf16_parts.h"
#include "core/cpu/kernels/conv_direct.h"

#if defined(TANDEM_AMX)
#include <algorithm>

#include "core/cpu/conv_planes.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/prefetch.h"

namespace tandem::cpu::TANDEM_LEVEL {

// A unit of work: several whole images, or some rows of one.
struct ConvUnits {
  Index images = 1, rows = 0;  // of a unit; rows of all images if images > 1
  Index blocks = 1;            // of rows in an image
  Index count = 0;

  // About `most` positions in a unit if rows are as short, at least `parts` units if there are as many rows.
  ConvUnits(const ConvPlanes& planes, Index batch, Index most, Index parts) {
    rows = planes.rows;
    images = std::clamp<Index>(std::min(most / planes.positions(), batch / parts), 1, batch);
    if (images == 1 && (planes.positions() > most + most / 4 || batch < parts)) {
      const Index wanted = std::max((parts + batch - 1) / batch, (planes.positions() + most / 2) / most);
      rows = (planes.rows + wanted - 1) / wanted;
    }
    blocks = (planes.rows + rows - 1) / rows;
    count = blocks == 1 ? (batch + images - 1) / images : batch * blocks;
  }
};

// The images or rows of one unit.
struct ConvUnit {
  Range images, rows;

  ConvUnit(const ConvUnits& units, const ConvPlanes& planes, Index batch, Index unit)
      : images(units.blocks == 1 ? Range{unit * units.images, std::min((unit + 1) * units.images, batch)}
                                 : Range{unit / units.blocks, unit / units.blocks + 1}),
        rows(units.blocks == 1 ? Range{0, planes.rows}
                               : Range{unit % units.blocks * units.rows,
                                       std::min((unit % units.blocks + 1) * units.rows, planes.rows)}) {}
  Index positions(const ConvPlanes& planes) const { return images.count() * rows.count() * planes.pitch; }
};

// Copies of the units of one tensor [N,H,W,C].
class PlaneRows {
 public:
  // With `rows_after` rows beyond those of a unit.
  PlaneRows(std::vector<ConvPlanes::Plane> planes, const ConvPlanes& all, Index rows_after, Index height,
            Index width, Index channels)
      : planes_(std::move(planes)),
        pitch_(all.pitch),
        image_rows_(all.rows),
        rows_after_(rows_after),
        height_(height),
        width_(width),
        channels_(channels) {}

  Index planes() const { return static_cast<Index>(planes_.size()); }
  Index channels() const { return channels_; }

  // About the memory of a unit.
  template <class S>
  Bytes source(const S* from, const ConvUnit& unit) const {
    const Index row = width_ * channels_, image = height_ * row;
    const Index first = unit.images.first * image + height_ * unit.rows.first / image_rows_ * row;
    return bytes_of(from + first, unit.images.count() * image * unit.rows.count() / image_rows_);
  }

  // Calls copy(plane, position, pixels, count, step) for each row of a unit's planes: `count` pixels, `step`
  // elements apart, from `position` on. Between whole images there are no calls; for padding of a part of an
  // image `pixels` is null.
  template <class S, class Copy>
  void over_rows(const S* from, const ConvUnit& unit, const Copy& copy) const {
    const bool whole = unit.rows.count() == image_rows_;
    for (Index n = unit.images.first; n < unit.images.last; ++n) {
      const S* image = from + n * height_ * width_ * channels_;
      const Index first = (n - unit.images.first) * image_rows_;
      for (Index i = 0; i < planes(); ++i) {
        const ConvPlanes::Plane& plane = planes_[static_cast<std::size_t>(i)];
        const Range rows = whole ? Range{plane.at[0], plane.at[0] + plane.count[0]}
                                 : Range{unit.rows.first, unit.rows.last + rows_after_};
        for (Index row = rows.first; row < rows.last; ++row) {
          const Index source = row - plane.at[0];
          const S* pixels =
              image + ((plane.first[0] + source * plane.step[0]) * width_ + plane.first[1]) * channels_;
          copy(i, (first + row - unit.rows.first) * pitch_ + plane.at[1],
               source >= 0 && source < plane.count[0] ? pixels : nullptr, plane.count[1],
               plane.step[1] * channels_);
        }
      }
    }
  }

 private:
  std::vector<ConvPlanes::Plane> planes_;
  Index pitch_, image_rows_, rows_after_, height_, width_, channels_;
};

// The masks avoid a false warning of GCC 12 (core/cpu/kernels/simd.h).
inline __m512i joined(__m256i first, __m256i second) {
  return _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(first), second, 1);
}

// Pairs (first[i], second[i]).
class Pairing {
 public:
  Pairing() {
    alignas(64) std::array<std::uint16_t, 2 * kTile> order;
    for (std::size_t i = 0; i < order.size(); ++i)
      order[i] = static_cast<std::uint16_t>(i / 2 + i % 2 * kTile);
    order_ = _mm512_load_si512(order.data());
  }
  __m512i operator()(__m256i first, __m256i second) const {
    return _mm512_maskz_permutexvar_epi16(~0u, order_, joined(first, second));
  }

 private:
  __m512i order_;
};

}  // namespace tandem::cpu::TANDEM_LEVEL
#endif
