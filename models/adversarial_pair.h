// AdversarialPair: the interface of GANs, a generator and a discriminator below one root. The task `gan`
// trains and evaluates it and draws samples from it.
#pragma once

#include "models/model_kind.h"
#include "nn/module.h"

namespace tandem::models {

class AdversarialPair : public nn::Module {
 public:
  static constexpr ModelKind kind = ModelKind::adversarial_pair;

  // z [N,1,1,noise()], standard normal, to images [N,H,W,C] in [-1, 1].
  virtual nn::Module& generator() const = 0;
  // Images to logits [N,1], large for real images.
  virtual nn::Module& discriminator() const = 0;
  virtual Index noise() const = 0;
  // [H,W,C] of one image.
  virtual Shape image() const = 0;
};

}  // namespace tandem::models
