// MobileNetV3-Large (Howard et al. 2019, "Searching for MobileNetV3", arXiv:1905.02244), Tables 1 and 2 of
// the paper, with torchvision's names of parameters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/layers/sequential.h"

namespace tandem::models {

enum class MobileActivation : std::uint8_t { none, relu, relu6, hardswish };

// Options of all batch norms of a network.
struct MobileNorm {
  double eps = 1e-3, momentum = 0.01;
};

struct MobileConv {
  Index in, out, kernel = 1, stride = 1;
  bool depthwise = false;  // one filter per channel
  MobileActivation activation = MobileActivation::none;
};

// A convolution without bias, "0", whose padding keeps the extent at stride 1; batch norm, "1"; and the
// activation. Weights start as PyTorch's.
std::shared_ptr<nn::Sequential> mobile_conv(const MobileConv& conv, const MobileNorm& norm);

// Squeeze and excitation (Hu, Shen and Sun 2018): multiplies each channel of x by a gate in [0,1] computed
// from the channel means: 1×1 convolution to fewer channels, ReLU, 1×1 convolution back, hardsigmoid.
class SqueezeExcitation final : public nn::Module {
 public:
  SqueezeExcitation(Index channels, Index squeezed);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Index channels_, squeezed_;
  nn::ModulePtr fc1_, fc2_;
};

struct InvertedResidualShape {
  Index in, kernel, expanded, out;
  bool squeeze;
  MobileActivation activation;
  Index stride;

  bool adds_input() const { return stride == 1 && in == out; }
};

// Layers of an inverted residual: a 1×1 convolution to `expanded` channels, if these are more; a strided
// depthwise one; squeeze and excitation, a quarter as wide in multiples of 8; a 1×1 convolution without
// activation.
std::vector<nn::ModulePtr> inverted_residual_layers(const InvertedResidualShape& shape,
                                                    const MobileNorm& norm);

// The layers in sequence, "block", plus x if the shape is unchanged (Sandler et al. 2018).
class InvertedResidual final : public nn::Module {
 public:
  InvertedResidual(const InvertedResidualShape& shape, const MobileNorm& norm);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "InvertedResidual"; }

 private:
  bool adds_input_;
  std::shared_ptr<nn::Sequential> block_;
};

// The blocks between the first convolution (3×3, stride 2, 16 channels) and the last (1×1, six times the
// channels), both with hardswish. `reduced_tail`: half the channels from the last stride on, as in detectors
// (section 6.3 of the paper).
std::vector<InvertedResidualShape> mobilenet_v3_large(bool reduced_tail = false);
MobileConv mobilenet_v3_first();
MobileConv mobilenet_v3_last(const std::vector<InvertedResidualShape>& blocks);

}  // namespace tandem::models
