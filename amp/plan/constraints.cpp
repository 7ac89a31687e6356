#include "amp/plan/constraints.h"

#include <algorithm>

#include "core/error.h"

namespace tandem::amp::plan {

namespace {

bool follows_data(const Op& op) {
  return (op.rule == CastRule::neutral || op.rule == CastRule::widest) && reads_data(op);
}

// A product with operands pinned to 16 bits rounds its result anyway.
bool could_round_early(const Op& op) {
  return may_lower(op) && !op.keeps_output && op.rule != CastRule::banned && !op.pin.operands.value_or(false);
}

std::vector<int> operand_variables(const Graph& graph) {
  std::vector<int> variables;
  int next = graph.count();
  for (const Op& op : graph.ops) variables.push_back(is_product(op) ? next++ : -1);
  return variables;
}

int variables_of(const Graph& graph) {
  check(graph);
  return graph.count() + static_cast<int>(std::ranges::count_if(graph.ops, is_product));
}

}  // namespace

GraphEnergy::GraphEnergy(const Graph& graph, const Freedom& freedom)
    : operands_(operand_variables(graph)), energy_(variables_of(graph)) {
  const ReaderTable readers = readers_of(graph);
  add_costs(graph, readers);
  for (int i = 0; i < graph.count(); ++i) constrain(graph, readers, i, freedom);
  for (const auto& [a, b] : graph.ties) {
    energy_.tie(a, b);
    if (operands_of(a) >= 0 && operands_of(b) >= 0) energy_.tie(operands_of(a), operands_of(b));
  }
}

void GraphEnergy::add_costs(const Graph& graph, const ReaderTable& readers) {
  for (int i = 0; i < graph.count(); ++i) {
    const Op& op = graph.at(i);
    if (is_product(op)) {
      energy_.cost(operands_of(i), op.ns.f32, op.ns.low);
      energy_.down_cast(i, {operands_of(i)}, op.widening_ns);
    } else {
      energy_.constant(op.ns.f32);
    }
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      const Result& result = op.results[r];
      energy_.cost(i, result.storage_ns, 0);
      std::vector<int> users;
      for (const int product : readers[static_cast<std::size_t>(i)][r].products)
        users.push_back(operands_of(product));
      energy_.down_cast(i, users, result.cast_ns);
      energy_.up_cast(i, std::move(users), result.cast_ns);
    }
  }
}

void GraphEnergy::constrain(const Graph& graph, const ReaderTable& readers, int i, const Freedom& freedom) {
  const Op& op = graph.at(i);
  if (is_product(op)) {
    if (op.one_type) energy_.tie(i, operands_of(i));
    if (op.pin.operands) {
      energy_.fix(operands_of(i), *op.pin.operands);
    } else if (!op.capable) {
      energy_.fix(operands_of(i), false);
    }
  }
  if (op.rule == CastRule::banned) {
    for (const Read& read : op.reads)
      if (read.role == Role::data && !graph.at(root_of(graph, read.op)).pin.out) energy_.fix(read.op, false);
  }
  if (op.view) return energy_.tie(i, op.reads.front().op);
  if (op.fetched) return energy_.fix(i, false);
  if (op.pin.out) return energy_.fix(i, *op.pin.out);
  if (op.kind != Kind::op || !op.capable) return energy_.fix(i, false);
  if (freedom.round_early && could_round_early(op) &&
      (freedom.rounding == Rounding::strict || !follows_data(op))) {
    const std::vector<int> products = only_products(graph, readers, i);
    for (const int product : products) energy_.implies(i, operands_of(product));
    if (!products.empty()) return;
  }
  if (is_product(op)) return energy_.implies(i, operands_of(i));
  if (!follows_data(op)) return energy_.fix(i, false);
  if (freedom.rounding == Rounding::free) return;
  for (const Read& read : op.reads)
    if (read.role == Role::data) energy_.implies(i, read.op);
}

Assignment GraphEnergy::assignment(const Labels& labels) const {
  Assignment assignment(operands_.size());
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    assignment[i].out = labels[i];
    assignment[i].operands = operands_[i] >= 0 && labels[static_cast<std::size_t>(operands_[i])];
  }
  return assignment;
}

Labels GraphEnergy::labels(const Assignment& assignment) const {
  Labels labels(static_cast<std::size_t>(energy_.variables()));
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    labels[i] = assignment[i].out;
    if (operands_[i] >= 0) labels[static_cast<std::size_t>(operands_[i])] = assignment[i].operands;
  }
  return labels;
}

bool rounds_early(const Graph& graph, const ReaderTable& readers, const Assignment& assignment, int index) {
  const Op& op = graph.at(index);
  const auto types = assignment[static_cast<std::size_t>(index)];
  if (op.kind != Kind::op || op.view || !types.out || op.pin.out || op.keeps_output) return false;
  bool natural = is_product(op) ? types.operands : follows_data(op);
  if (natural && !is_product(op))
    natural = std::ranges::all_of(op.reads, [&](const Read& read) {
      return read.role != Role::data || assignment[static_cast<std::size_t>(read.op)].out;
    });
  if (natural) return false;
  const std::vector<int> products = only_products(graph, readers, index);
  return !products.empty() && std::ranges::all_of(products, [&](int product) {
    return assignment[static_cast<std::size_t>(product)].operands;
  });
}

}  // namespace tandem::amp::plan
