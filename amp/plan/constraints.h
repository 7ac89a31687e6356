// What an assignment may do beside its price: the rules of the ops, and where it may round.
//
//   product                 out only if operands, and as them where it has one type
//   neutral, widest         strict: out only if all the data that it reads is
//   fp32, no data to read   f32: softmax, losses, an embedding
//   banned                  f32, and so is what it reads: its gradient does not fit 16 bits
//   round early             instead of any of these, for an op that keeps no output and that only products
//                           read: out only if all of them have 16-bit operands, who would round it anyway
//
// In forward, a strict assignment rounds nowhere that autocast (O1) does not, and O1's is one of them.
#pragma once

#include <optional>
#include <vector>

#include "amp/plan/energy.h"
#include "amp/plan/graph.h"

namespace tandem::amp::plan {

enum class Rounding : std::uint8_t {
  strict,
  free,  // neutral and widest ops whatever they read, as O2 and the colours
};

struct Freedom {
  Rounding rounding = Rounding::strict;
  bool round_early = true;
};

// Something beside time, such as memory or error, with a price. By op, paid when it is 16-bit; what f32 pays
// is given as its negative. One empty list counts as zeros.
struct Penalty {
  std::vector<double> operands, out;

  double of(const Graph& graph, const Assignment& assignment) const;
};

// Bytes that 16 bits save, as a penalty.
Penalty memory_penalty(const Graph& graph);
// Squares of errors e, one for each op, that the gradient has with only that op in 16 bits. That squares add
// up supposes roundings that do not depend on each other.
Penalty error_penalty(const Graph& graph, const std::vector<double>& errors);

// A graph as an energy: variable i is `out` of op i.
class GraphEnergy {
 public:
  // Pins replace what would keep an op from them. `lambda`: ns for a unit of the penalty. Throws
  // InternalError as check(graph).
  GraphEnergy(const Graph& graph, const Freedom& freedom, const Penalty& penalty = {}, double lambda = 0.0);

  const Energy& energy() const { return energy_; }
  Assignment assignment(const Labels& labels) const;
  Labels labels(const Assignment& assignment) const;
  // Absent when it is not allowed.
  std::optional<std::int64_t> of(const Assignment& assignment) const {
    return energy_.of(labels(assignment));
  }

 private:
  void add_costs(const Graph& graph, const ReaderTable& readers);
  void add_penalty(const Graph& graph, const Penalty& penalty, double lambda);
  void constrain(const Graph& graph, const ReaderTable& readers, int op, const Freedom& freedom);
  int operands_of(int op) const { return operands_[static_cast<std::size_t>(op)]; }

  std::vector<int> operands_;  // variable of the operands, or −1
  Energy energy_;
};

// Whether `op` rounds early in `assignment`: it is 16-bit, and its rule would not have it so.
bool rounds_early(const Graph& graph, const ReaderTable& readers, const Assignment& assignment, int op);

}  // namespace tandem::amp::plan
