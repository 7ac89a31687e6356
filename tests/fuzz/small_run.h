// A tiny training run, for saving and loading states.
#pragma once

#include <memory>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/random.h"
#include "models/mlp.h"
#include "optim/adam.h"
#include "optim/step.h"

namespace tandem::fuzz {

// A small network with running statistics, moments and averages, two micro-batches a step.
struct SmallRun {
  SmallRun() {
    const RandomScope random(1, 0, 0);
    model = models::mlp({.in_features = 4, .hidden = {3}, .num_classes = 2, .batch_norm = true});
    optimizer = std::make_unique<optim::Adam>(model->parameters());
    step = std::make_unique<optim::Step>(
        *model, std::vector<optim::Optimizer*>{optimizer.get()},
        optim::StepOptions{
            .scaler = optim::scaler_preset("tandem"), .accumulate = 2, .ema = optim::EmaOptions{}});
  }

  void backward() {
    const Tensor x = Tensor::full({4, 4}, 1.0);
    step->backward(mean(square((*model)(x))), 4.0);
  }

  std::shared_ptr<nn::Module> model;
  std::unique_ptr<optim::Adam> optimizer;
  std::unique_ptr<optim::Step> step;
};

}  // namespace tandem::fuzz
