// DCGAN (Radford, Metz and Chintala 2016), as in PyTorch's examples: a generator and a discriminator of
// strided convolutions without pooling.
#pragma once

#include "models/adversarial_pair.h"
#include "nn/layers/sequential.h"

namespace tandem::models {

struct DcganOptions {
  Index image_size = 32;  // side: 4·2^k with k >= 1; the example's is 64
  Index channels = 1;
  Index noise = 100;  // size of the latent vector
  Index width = 32;   // channels at half the image's side, doubled at each halving; the example's: 64
};

// Whether the side is supported: 8, 16, 32, …, 1024.
bool is_dcgan_size(Index side);
// The smallest size of that form that is at least `side`; may exceed the maximum.
Index dcgan_size_for(Index side);

// z [N,1,1,noise] → images [N,S,S,channels] in [-1, 1]. Parameters and statistics are named main.{i}.… as in
// PyTorch's examples; ReLUs are fused into the preceding batch norms. Convolutions start as N(0, 0.02), γ of
// batch norms as N(1, 0.02). Throws UserError for a size that is not 4·2^k.
std::shared_ptr<nn::Sequential> dcgan_generator(const DcganOptions& options = {});

// Images [N,S,S,channels] → logits [N,1], large for real images: the example's network without its sigmoid,
// which is part of the loss. Names, initialisation and errors as above.
std::shared_ptr<nn::Sequential> dcgan_discriminator(const DcganOptions& options = {});

// Both networks below one root, as `generator` and `discriminator`; called by name only. The generator is
// initialised first.
class Dcgan final : public AdversarialPair {
 public:
  explicit Dcgan(const DcganOptions& options = {});

  nn::Sequential& generator() const override { return *generator_; }
  nn::Sequential& discriminator() const override { return *discriminator_; }
  Index noise() const override { return options_.noise; }
  Shape image() const override { return {options_.image_size, options_.image_size, options_.channels}; }
  const DcganOptions& options() const { return options_; }
  std::string describe() const override;

 private:
  DcganOptions options_;
  std::shared_ptr<nn::Sequential> generator_, discriminator_;
};

}  // namespace tandem::models
