// Registry entries of the built-in optimizers. docs/add-an-optimizer.md
#pragma once

#include "autograd/op.h"
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

using AllOptimizers = TypeList<Sgd, Adam, AdamW, Rmsprop, Adagrad, Lars, Lamb, Muon, Adafactor>;

}  // namespace tandem::optim
