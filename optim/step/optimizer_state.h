// OptimizerState: what the optimizers of a step keep of each parameter.
//
// Moments of elementwise rules lie in the layout of the flat buffers, one buffer each, so that an update is
// one pass. Tensors that other optimizers declare lie one after the other, in the order of the slots, in a
// buffer of their own. Where the update is divided among processes, each has the tensors of its part.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "optim/flat_buffers.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "optim/step/shards.h"
#include "optim/step/update_parts.h"
#include "optim/update_context.h"

namespace tandem::optim {

// The optimizer of a parameter, and its entry there.
struct Owner {
  const Optimizer* optimizer = nullptr;
  const Optimizer::Entry* entry = nullptr;
};

class OptimizerState {
 public:
  // `owners`: of each slot of `buffers`. `parts` is absent where the update is whole; where an optimizer
  // declares state tensors, parameters are in one part each. The buffers and parts must outlive this. Throws
  // UserError for two tensors of one name, and for more moments than a rule can have.
  OptimizerState(const FlatBuffers& buffers, const std::vector<Owner>& owners, const UpdateParts* parts);

  // All of it, or a process's part.
  struct Values {
    std::vector<Tensor> moments;  // in the layout of the flat buffers; fewer, or absent: not kept
    Tensor declared;
  };

  // What this process holds of a moment, for UpdateBuffers; absent where no rule has so many.
  Tensor moment(std::size_t m) const { return m < own_.moments.size() ? own_.moments[m] : Tensor(); }
  // The tensors that are declared of a parameter of the own part.
  std::vector<NamedState> tensors(std::size_t slot) const;
  // Elements that are kept of a parameter.
  Index elements(std::size_t slot) const;

  // The whole state, where this process holds it: all of it where the update is not divided, else none.
  Values held() const { return parts_ ? Values() : own_; }
  // The whole state. Of a divided update a call of all processes: the first gets a copy, and the others none.
  Values gathered(ShardExchange* exchange) const;
  // Memory for a whole state, for take().
  Values to_load() const;
  void take(const Values& whole) const;
  // Adds the tensors of a parameter that `whole` holds, by name.
  void add_named(std::size_t slot, const Values& whole, std::vector<NamedTensor>& named) const;

 private:
  struct Place {
    std::string name;
    Shape shape;
    std::size_t moment;  // kDeclared of a tensor in `declared`
    Index first;         // element
  };
  static constexpr std::size_t kDeclared = kMostMoments;

  Tensor part_of(const Tensor& whole) const { return whole.rows(first_, last_ - first_); }
  Tensor part_of_own() const { return own_.declared.rows(0, last_ - first_); }

  const FlatBuffers& buffers_;
  const UpdateParts* parts_;
  std::vector<std::vector<Place>> places_;    // by slot
  Index length_ = 0, first_ = 0, last_ = 0;   // of `declared`: whole, and the own part in it
  std::vector<std::size_t> declared_counts_;  // elements of each part
  Values own_;
};

}  // namespace tandem::optim
