// U-Net (Ronneberger, Fischer and Brox 2015, arXiv:1505.04597): class scores for every pixel.
//
// The usual modern form: 3×3 convolutions that keep the extent, without bias, each with batch norm and ReLU;
// names of parameters are those of milesial/Pytorch-UNet with transposed convolutions. Each of `levels`
// halves the image by max pooling and doubles its channels; on the way up a transposed 2×2 convolution of
// stride 2 doubles the image, concatenated behind the skip connection: [skip, up]. Weights start as
// PyTorch's. Input [N,H,W,C], output logits [N,H,W,num_classes].
#pragma once

#include <memory>
#include <vector>

#include "nn/layers/conv.h"
#include "nn/layers/sequential.h"

namespace tandem::models {

struct UNetOptions {
  Index in_channels = 3;
  Index num_classes = 2;
  Index width = 64;  // channels at full size, doubled at each level
  Index levels = 4;
};

// Two times 3×3 convolution, batch norm and ReLU.
class DoubleConv final : public nn::Module {
 public:
  DoubleConv(Index in_channels, Index out_channels);
  Tensor forward(const Tensor& x) override { return (*double_conv_)(x); }
  std::string describe() const override { return "DoubleConv"; }

 private:
  std::shared_ptr<nn::Sequential> double_conv_;
};

// [N,H,W,C] → [N,H/2,W/2,out_channels].
class UNetDown final : public nn::Module {
 public:
  UNetDown(Index in_channels, Index out_channels);
  Tensor forward(const Tensor& x) override { return (*maxpool_conv_)(x); }
  std::string describe() const override { return "UNetDown"; }

 private:
  std::shared_ptr<nn::Sequential> maxpool_conv_;
};

// {x, skip}: [N,H,W,C] and [N,2H,2W,C/2] → [N,2H,2W,C/2].
class UNetUp final : public nn::Module {
 public:
  explicit UNetUp(Index in_channels);
  Tensor forward_all(const TensorList& xs) override;
  std::string describe() const override { return "UNetUp"; }

 private:
  std::shared_ptr<nn::ConvTranspose2d> up_;
  std::shared_ptr<DoubleConv> conv_;
};

// Throws UserError unless 2^levels divides both extents of an image.
class UNet final : public nn::Module {
 public:
  explicit UNet(const UNetOptions& options);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  UNetOptions options_;
  std::shared_ptr<DoubleConv> inc_;
  std::vector<std::shared_ptr<UNetDown>> down_;
  std::vector<std::shared_ptr<UNetUp>> up_;
  std::shared_ptr<nn::Sequential> outc_;
};

}  // namespace tandem::models
