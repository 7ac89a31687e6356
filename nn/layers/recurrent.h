// Recurrent layers: stacked LSTM, GRU and plain cells.
#pragma once

#include <string>
#include <vector>

#include "autograd/ops/rnn.h"
#include "nn/module.h"

namespace tandem::nn {

struct RecurrentOptions {
  RnnCell cell = RnnCell::lstm;
  Index layers = 1;
  bool bidirectional = false;
  bool bias = true;
  Index projection = 0;    // lstm only: outputs of a layer, fewer than its units; 0: none
  double dropout = 0.0;    // between layers
  bool recompute = false;  // recompute gates in backward: see RnnOptions
  bool locked = false;     // the same dropout mask at every step: see locked_dropout
  // DropConnect (Wan et al. 2013; for recurrent weights, Merity et al. 2018): probability that an element of
  // weight_hh is zero, the others scaled by 1/(1-p); one mask for all steps of a call, generated in the
  // parameter's own type.
  double weight_dropout = 0.0;
  // Units of the last of several layers, at most `units`; 0: `units`. Only in one direction and without
  // projection.
  Index last_units = 0;
};

// x [T,N,I] → y [T,N,D·P], with the states in core/kernels/rnn.h's order. Names of parameters (weight_ih_l0,
// weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0, and with the suffix _reverse), shapes and
// initialisation (uniform in ±1/√units) are PyTorch's. Throws UserError for sizes below 1, an invalid
// projection or last_units, and probabilities outside [0, 1). With last_units the state has the shapes of
// `units`; the rest of the last layer's state is 0.
class Recurrent final : public Module {
 public:
  Recurrent(Index inputs, Index units, const RecurrentOptions& options = {});

  using Module::operator();
  // From a zero state; returns y only.
  Tensor forward(const Tensor& x) override;
  // `state`: [L·D,N,P] and [L·D,N,H], or absent. `lengths`: i64 [N] in host memory, or absent.
  RnnResult operator()(const Tensor& x, const RnnState& state, const Tensor& lengths = {});
  std::string describe() const override;

  Index outputs() const;  // D·P
  const RecurrentOptions& options() const { return options_; }

 private:
  struct Layer {
    Parameter weight_ih, weight_hh, bias_ih, bias_hh, weight_hr;
  };

  Layer add_layer(const std::string& suffix, Index inputs, Index units);
  std::vector<RnnWeights> weights() const;
  // Runs layers [first, first + count) from their part of `state`.
  RnnResult run_layers(const Tensor& x, const RnnState& state, const Tensor& lengths, Index first,
                       Index count);
  Tensor drop(const Tensor& x) const;
  bool is_uneven() const { return options_.last_units > 0 && options_.last_units != units_; }
  RnnResult run(const Tensor& x, const RnnState& state, const Tensor& lengths);

  Index inputs_, units_;
  RecurrentOptions options_;
  std::vector<Layer> layers_;  // layer k, direction d at k·D + d
};

}  // namespace tandem::nn
