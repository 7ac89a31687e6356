// Recurrent layers: LSTM, GRU and plain cells, one above the other.
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
  Index projection = 0;    // of lstm: outputs of a layer, fewer than its units; 0: as many
  double dropout = 0.0;    // between layers
  bool recompute = false;  // gates anew in backward: see RnnOptions
  bool locked = false;     // dropout drops an element at every step or at none: see locked_dropout
  // DropConnect (Wan et al. 2013; on what recurs, Merity et al. 2018): probability that an element of
  // weight_hh is zero, the others scaled by 1/(1-p); one mask for all steps of a call, made in the
  // parameter's own type.
  double weight_dropout = 0.0;
  // Of the last of several layers, at most `units`; 0: as many. In one direction, unprojected.
  Index last_units = 0;
};

// x [T,N,I] → y [T,N,D·P], with the states in core/rnn.h's order. Parameters have PyTorch's names
// (weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0, and with the suffix _reverse), shapes
// and start: uniform in ±1/√units. Throws UserError for sizes below 1, a projection that is none,
// probabilities outside [0, 1), and last_units where they mean nothing. With last_units the state has the
// shapes of `units`; what the last layer does not have of it is 0.
class Recurrent final : public Module {
 public:
  Recurrent(Index inputs, Index units, const RecurrentOptions& options = {});

  using Module::operator();
  // From zeros; y alone.
  Tensor forward(const Tensor& x) override;
  // From `state`, absent or [L·D,N,P] and [L·D,N,H]. `lengths`: i64 [N] in host memory, or absent.
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
  // Of layers [first, first + count), from their part of `state`.
  RnnResult run_layers(const Tensor& x, const RnnState& state, const Tensor& lengths, Index first,
                       Index count);
  Tensor drop(const Tensor& x) const;
  bool is_uneven() const { return options_.last_units > 0 && options_.last_units != units_; }
  RnnResult run(const Tensor& x, const RnnState& state, const Tensor& lengths);

  Index inputs_, units_;
  RecurrentOptions options_;
  std::vector<Layer> layers_;  // of layer k and direction d at k·D + d
};

}  // namespace tandem::nn
