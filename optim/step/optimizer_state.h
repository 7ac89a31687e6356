// OptimizerState: the state tensors of a step's optimizers.
//
// Moments of elementwise rules have the layout of the flat buffers, one buffer each, so that an update is one
// pass. Tensors declared by other optimizers lie in a separate buffer, in the order of the slots. With a
// sharded update, each process holds its own part.
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

// The optimizer of a parameter, and its entry in it.
struct Owner {
  const Optimizer* optimizer = nullptr;
  const Optimizer::Entry* entry = nullptr;
};

class OptimizerState {
 public:
  // `owners`: one for each slot of `buffers`. `parts` is absent without a sharded update; if an optimizer
  // declares state tensors, each parameter lies in one part. The buffers and parts must outlive this. Throws
  // UserError for two tensors of one name, and for more moments than a rule can have.
  OptimizerState(const FlatBuffers& buffers, const std::vector<Owner>& owners, const UpdateParts* parts);

  // The whole state, or a process's part.
  struct Values {
    std::vector<Tensor> moments;  // in the layout of the flat buffers; missing or absent ones are not kept
    Tensor declared;
  };

  // This process's part of a moment, for UpdateBuffers; absent if no rule has it.
  Tensor moment(std::size_t m) const { return m < own_.moments.size() ? own_.moments[m] : Tensor(); }
  // The declared tensors of a parameter in the own part.
  std::vector<NamedState> tensors(std::size_t slot) const;
  // Number of state elements of a parameter.
  Index elements(std::size_t slot) const;

  // The whole state if this process holds it (no sharded update), else none.
  Values held() const { return parts_ ? Values() : own_; }
  // The whole state. Collective with a sharded update: the first process gets a copy, the others none.
  Values gathered(ShardExchange* exchange) const;
  // Memory for a whole state, for take().
  Values to_load() const;
  void take(const Values& whole) const;
  // Adds a parameter's tensors in `whole`, by name.
  void add_named(std::size_t slot, const Values& whole, std::vector<NamedTensor>& named) const;

 private:
  struct Place {
    std::string name;
    Shape shape;
    std::size_t moment;  // kDeclared for a tensor in `declared`
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
