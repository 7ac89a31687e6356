// Registry entries of the built-in optimizers. docs/add-an-optimizer.md
#pragma once

#include <vector>

#include "optim/adafactor.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/adamw.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/muon.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"

namespace tandem::optim {

inline std::vector<OptimizerRegistry::Entry> built_in_optimizers() {
  return {Sgd::entry(),  Adam::entry(), AdamW::entry(), Rmsprop::entry(),  Adagrad::entry(),
          Lars::entry(), Lamb::entry(), Muon::entry(),  Adafactor::entry()};
}

}  // namespace tandem::optim
