// Convolutions on channels-last images. All accumulate in f32 (f64 for f64); filter and bias gradients are
// f32. UserError, naming the shapes, when ranks, channels, groups or options do not fit.
#pragma once

#include "autograd/op.h"

namespace tandem {

// x [N,H,W,C], filter [O,KH,KW,C/groups], bias [O] or absent → [N,H',W',O] with
// H' = (H + 2·padding - dilation·(KH-1) - 1)/stride + 1. Depthwise: groups = C.
Tensor conv2d(const Tensor& x, const Tensor& filter, const Tensor& bias = {},
              const Conv2dOptions& options = {});

// The adjoint of conv2d as a function of its input. x [N,H,W,C], filter [C,KH,KW,O/groups], bias [O] or
// absent → [N,H',W',O] with H' = (H-1)·stride - 2·padding + dilation·(KH-1) + output_padding + 1.
// output_padding is less than stride or dilation.
Tensor conv_transpose2d(const Tensor& x, const Tensor& filter, const Tensor& bias = {},
                        const Conv2dOptions& options = {}, std::array<Index, 2> output_padding = {0, 0});

struct Conv1dOptions {
  Index stride = 1, padding = 0, dilation = 1, groups = 1;
};
// x [N,L,C], filter [O,K,C/groups] → [N,L',O].
Tensor conv1d(const Tensor& x, const Tensor& filter, const Tensor& bias = {},
              const Conv1dOptions& options = {});

// ---- the ops

struct Conv2d {
  Conv2dOptions options;
  static constexpr OpInfo info{"conv2d", CastRule::lower};
  struct In {
    Tensor x, filter, bias;
  };
  struct Saved {
    Tensor x, filter;
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

// dy [N,H',W',O], filter [O,KH,KW,C/groups] → dx [N,H,W,C].
struct Conv2dInputGradient {
  Conv2dOptions options;
  std::array<Index, 2> extent{};  // H, W
  static constexpr OpInfo info{"conv2d_input_gradient", CastRule::lower};
  struct In {
    Tensor dy, filter;
  };
  struct Saved {
    Tensor dy, filter;
  };
  struct Out {
    Tensor dx;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& ddx, const Needs&) const;
};

// x [N,H,W,C], dy [N,H',W',O] → dfilter [O,KH,KW,C/groups] in f32 (f64 for f64).
struct Conv2dFilterGradient {
  Conv2dOptions options;
  std::array<Index, 2> kernel{};  // KH, KW
  static constexpr OpInfo info{"conv2d_filter_gradient", CastRule::lower};
  struct In {
    Tensor x, dy;
  };
  struct Saved {
    Tensor x, dy;
  };
  struct Out {
    Tensor dfilter;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& ddfilter, const Needs&) const;
};

struct ConvTranspose2d {
  Conv2dOptions options;
  std::array<Index, 2> output_padding{};
  static constexpr OpInfo info{"conv_transpose2d", CastRule::lower};
  struct In {
    Tensor x, filter, bias;
  };
  struct Saved {
    Tensor x, filter;
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

Tensor conv2d_input_gradient(const Tensor& dy, const Tensor& filter, std::array<Index, 2> extent,
                             const Conv2dOptions& options, const Destination* sink = nullptr);
Tensor conv2d_filter_gradient(const Tensor& x, const Tensor& dy, std::array<Index, 2> kernel,
                              const Conv2dOptions& options, const Destination* sink = nullptr);

using ConvOps = TypeList<Conv2d, Conv2dInputGradient, Conv2dFilterGradient, ConvTranspose2d>;

}  // namespace tandem
