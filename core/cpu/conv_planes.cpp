#include "core/cpu/conv_planes.h"

#include <algorithm>

namespace tandem::cpu {

using onednn::Convolution;
using onednn::Pass;

namespace {

// One dimension of a convolution.
struct Axis {
  Index extent, reached, kernel, stride, dilation, padding;  // extents of x and y
};

struct PlaneAxis {
  Index first, step, count, at;
};
struct TapAxis {
  Index plane, offset, kernel;
};
struct ClassAxis {
  Index first, step, count;
  std::vector<TapAxis> taps;
};
struct Plan {
  std::vector<PlaneAxis> planes;
  std::vector<ClassAxis> classes;
  Index extent = 0, after = 0;
};

// Sets the extent that all planes share, and drops pixels that no output reads. At least `gap` zeros follow
// them.
void place(Plan& plan, Index gap) {
  Index outputs = 0, largest = 0;
  std::vector<Index> needed(plan.planes.size(), 0);
  for (const ClassAxis& c : plan.classes) {
    outputs = std::max(outputs, c.count);
    for (const TapAxis& tap : c.taps) {
      auto& positions = needed[static_cast<std::size_t>(tap.plane)];
      positions = std::max(positions, c.count + tap.offset);
      largest = std::max(largest, tap.offset);
    }
  }
  plan.extent = outputs + gap;
  for (std::size_t i = 0; i < plan.planes.size(); ++i) {
    PlaneAxis& plane = plan.planes[i];
    plane.count = std::clamp<Index>(needed[i] - plane.at, 0, plane.count);
    const Index after = needed[i] - plane.at - plane.count;
    plan.extent = std::max(plan.extent, plane.count + std::max({plane.at, after, gap}));
  }
  plan.after = largest;
}

// y[o] reads padded coordinate o·stride + k·dilation: plane (k·dilation) mod stride.
Plan forward(const Axis& a, Index gap) {
  Plan plan;
  ClassAxis outputs{0, 1, a.reached, {}};
  std::vector<Index> plane_of(static_cast<std::size_t>(a.stride), -1);
  for (Index k = 0; k < a.kernel; ++k) {
    const Index shift = k * a.dilation, remainder = shift % a.stride;
    Index& plane = plane_of[static_cast<std::size_t>(remainder)];
    if (plane < 0) {
      plane = static_cast<Index>(plan.planes.size());
      const Index before = std::max<Index>(0, a.padding - remainder), at = (before + a.stride - 1) / a.stride;
      const Index first = at * a.stride + remainder - a.padding;
      plan.planes.push_back(
          {first, a.stride, std::max<Index>(0, (a.extent - first + a.stride - 1) / a.stride), at});
    }
    outputs.taps.push_back({plane, shift / a.stride, k});
  }
  plan.classes.push_back(std::move(outputs));
  place(plan, gap);
  return plan;
}

// dx[s·i + r] reads dy[i + (r + padding - k·dilation)/s] for the taps k for which the division is exact.
Plan input_gradient(const Axis& a, Index gap) {
  Plan plan;
  Index lowest = 0;
  for (Index r = 0; r < a.stride; ++r) {
    ClassAxis outputs{r, a.stride, std::max<Index>(0, (a.extent - r + a.stride - 1) / a.stride), {}};
    for (Index k = a.kernel - 1; k >= 0; --k) {
      const Index shifted = r + a.padding - k * a.dilation;
      if (shifted % a.stride != 0) continue;
      outputs.taps.push_back({0, shifted / a.stride, k});
      lowest = std::min(lowest, shifted / a.stride);
    }
    plan.classes.push_back(std::move(outputs));
  }
  for (ClassAxis& c : plan.classes)
    for (TapAxis& tap : c.taps) tap.offset -= lowest;
  plan.planes.push_back({0, 1, a.reached, -lowest});
  place(plan, gap);
  return plan;
}

}  // namespace

ConvPlanes conv_planes(Pass pass, const Convolution& p) {
  const auto& o = p.options;
  const auto plan = pass == Pass::input_gradient ? input_gradient : forward;
  const Plan down =
      plan({p.height, p.out_height, p.kernel_height, o.stride[0], o.dilation[0], o.padding[0]}, 0);
  const Plan across = plan({p.width, p.out_width, p.kernel_width, o.stride[1], o.dilation[1], o.padding[1]},
                           pass == Pass::filter_gradient ? 1 : 0);
  ConvPlanes all;
  all.rows = down.extent;
  all.pitch = across.extent;
  all.rows_after = down.after;
  all.largest_offset = down.after * all.pitch + across.after;
  for (const PlaneAxis& y : down.planes)
    for (const PlaneAxis& x : across.planes)
      all.planes.push_back({{y.first, x.first}, {y.step, x.step}, {y.count, x.count}, {y.at, x.at}});
  for (const ClassAxis& y : down.classes) {
    for (const ClassAxis& x : across.classes) {
      ConvPlanes::Class c{{y.first, x.first}, {y.step, x.step}, {y.count, x.count}, {}};
      for (const TapAxis& ky : y.taps) {
        for (const TapAxis& kx : x.taps)
          c.taps.push_back({ky.plane * static_cast<Index>(across.planes.size()) + kx.plane,
                            ky.offset * all.pitch + kx.offset,
                            {ky.kernel, kx.kernel}});
      }
      std::ranges::stable_sort(c.taps, [](const auto& a, const auto& b) {
        return std::pair(a.plane, a.offset) < std::pair(b.plane, b.offset);
      });
      all.classes.push_back(std::move(c));
    }
  }
  return all;
}

}  // namespace tandem::cpu
