#include "core/cpu/conv_axis.h"

#include <algorithm>

namespace tandem::cpu {

using onednn::Convolution;
using onednn::Pass;

namespace {

Index floor_divided(Index a, Index b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

}  // namespace

ConvAxis::ConvAxis(Pass pass, const Convolution& p, int axis)
    : outputs(axis == 0 ? p.out_height : p.out_width),
      sources(axis == 0 ? p.height : p.width),
      kernel(axis == 0 ? p.kernel_height : p.kernel_width),
      stride(p.options.stride[static_cast<std::size_t>(axis)]),
      padding(p.options.padding[static_cast<std::size_t>(axis)]),
      dilation(p.options.dilation[static_cast<std::size_t>(axis)]),
      gradient(pass == Pass::input_gradient) {
  if (gradient) std::swap(outputs, sources);
}

std::optional<Index> ConvAxis::source(Index o, Index k) const {
  if (!gradient) return o * stride - padding + k * dilation;
  const Index shifted = o + padding - k * dilation;
  return shifted % stride == 0 ? std::optional(shifted / stride) : std::nullopt;
}

Extent ConvAxis::window(Index o) const {
  const Index span = (kernel - 1) * dilation;
  const Index first = gradient ? floor_divided(o + padding - span, stride) : o * stride - padding;
  const Index last = gradient ? floor_divided(o + padding, stride) : first + span;
  return {std::clamp<Index>(first, 0, sources), std::clamp<Index>(last + 1, 0, sources)};
}

Index ConvAxis::reach() const {
  const Index span = (kernel - 1) * dilation;
  return std::clamp<Index>(gradient ? span / stride + 2 : span + 1, 1, std::max<Index>(sources, 1));
}

}  // namespace tandem::cpu
