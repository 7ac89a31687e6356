// Convolutions on channels-last images and sequences. Weights start as PyTorch's by default; with another
// initialiser than `standard` the bias starts at 0.
#pragma once

#include <array>
#include <functional>

#include "autograd/ops/conv.h"
#include "nn/init.h"
#include "nn/module.h"

namespace tandem::nn {

struct ConvOptions {
  std::array<Index, 2> stride{1, 1};  // height, width
  std::array<Index, 2> padding{0, 0};
  std::array<Index, 2> dilation{1, 1};
  Index groups = 1;
  bool bias = true;
  WeightInit init = WeightInit::standard;
};

// [N,H,W,I] → [N,H',W',O]. Parameters: weight [O,KH,KW,I/groups], bias [O].
class Conv2d final : public Module {
 public:
  Conv2d(Index in_channels, Index out_channels, std::array<Index, 2> kernel, const ConvOptions& options = {});
  Conv2d(Index in_channels, Index out_channels, Index kernel, const ConvOptions& options = {})
      : Conv2d(in_channels, out_channels, std::array{kernel, kernel}, options) {}

  Tensor forward(const Tensor& x) override;
  // `sums`: see conv2d in autograd/ops/conv.h.
  Tensor operator()(const Tensor& x, Tensor* sums);
  using Module::operator();
  std::string describe() const override;

  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }

 private:
  Tensor convolve(const Tensor& x, Tensor* sums);

  Parameter weight_, bias_;
  Conv2dOptions options_;
};

struct Conv1dLayerOptions {
  Index stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;
  WeightInit init = WeightInit::standard;
};

// [N,L,I] → [N,L',O]. Parameters: weight [O,K,I/groups], bias [O].
class Conv1d final : public Module {
 public:
  Conv1d(Index in_channels, Index out_channels, Index kernel, const Conv1dLayerOptions& options = {});

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Parameter weight_, bias_;
  Conv1dOptions options_;
};

struct ConvTransposeOptions : ConvOptions {
  std::array<Index, 2> output_padding{0, 0};
};

// [N,H,W,I] → [N,H',W',O]. Parameters: weight [I,KH,KW,O/groups], bias [O].
class ConvTranspose2d final : public Module {
 public:
  ConvTranspose2d(Index in_channels, Index out_channels, std::array<Index, 2> kernel,
                  const ConvTransposeOptions& options = {});

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Parameter weight_, bias_;
  Conv2dOptions options_;
  std::array<Index, 2> output_padding_;
};

class BatchNorm;

// norm(conv(x), residual()), evaluated in this order. In training, batch norm takes its statistics from the
// convolution's own pass if the device provides them.
Tensor conv_norm(Conv2d& conv, BatchNorm& norm, const Tensor& x,
                 const std::function<Tensor()>& residual = {});

}  // namespace tandem::nn
