// Constraints of an assignment: the rules of the ops, and permitted roundings.
//
//   product                 out only if operands; equal to operands if the product has one type
//   neutral, widest         strict: out only if all data inputs are
//   fp32, no data inputs    f32: softmax, losses, an embedding
//   banned                  f32, inputs included: its gradient does not fit 16 bits
//   round early             replaces all of these for an op that does not keep its output and is read only by
//                           products: out only if all of them have 16-bit operands, and would round it anyway
//
// A strict assignment rounds nowhere in forward where autocast (O1) does not; O1's is one of them.
#pragma once

#include <optional>
#include <vector>

#include "amp/plan/energy.h"
#include "amp/plan/graph.h"

namespace tandem::amp::plan {

enum class Rounding : std::uint8_t {
  strict,
  free,  // neutral and widest ops for any inputs, as in O2 and the policy "colours"
};

struct Freedom {
  Rounding rounding = Rounding::strict;
  bool round_early = true;
};

// A graph as an energy: variable i is `out` of op i.
class GraphEnergy {
 public:
  // Pins override the rules. Throws InternalError as check(graph).
  GraphEnergy(const Graph& graph, const Freedom& freedom);

  const Energy& energy() const { return energy_; }
  Assignment assignment(const Labels& labels) const;
  Labels labels(const Assignment& assignment) const;
  // Absent for a forbidden assignment.
  std::optional<std::int64_t> of(const Assignment& assignment) const {
    return energy_.of(labels(assignment));
  }

 private:
  void add_costs(const Graph& graph, const ReaderTable& readers);
  void constrain(const Graph& graph, const ReaderTable& readers, int op, const Freedom& freedom);
  int operands_of(int op) const { return operands_[static_cast<std::size_t>(op)]; }

  std::vector<int> operands_;  // variable of the operands, or -1
  Energy energy_;
};

// Whether `op` rounds early in `assignment`: it is 16-bit although its rule says otherwise.
bool rounds_early(const Graph& graph, const ReaderTable& readers, const Assignment& assignment, int op);

}  // namespace tandem::amp::plan
