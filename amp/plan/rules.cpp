#include "amp/plan/rules.h"

#include <algorithm>

#include "core/error.h"
#include "core/pattern.h"
#include "core/suggest.h"

namespace tandem::amp::plan {

namespace {

bool is_follower(const Op& op) { return op.rule == CastRule::widest || op.rule == CastRule::neutral; }

// O1's types for an op without pin.
Types by_rule(const Op& op, const Assignment& before) {
  if (op.kind != Kind::op) return {};
  if (op.rule == CastRule::lower) return {.operands = true, .out = true};
  if (!is_follower(op) || !reads_data(op)) return {};
  const bool all = std::ranges::all_of(op.reads, [&](const Read& read) {
    return read.role != Role::data || before[static_cast<std::size_t>(read.op)].out;
  });
  return {.operands = false, .out = all};
}

void apply_pin(const Op& op, Types& types) {
  if (is_product(op)) types.operands = op.pin.operands.value_or(types.operands);
  types.out = op.pin.out.value_or(types.out);
}

// Returns whether anything was pinned.
bool pin(Op& op, bool low) {
  if (op.kind != Kind::op || op.view || op.rule == CastRule::none) return false;
  if (low && (op.fetched || (op.rule != CastRule::lower && !is_follower(op)))) return false;
  op.pin = {.operands = is_product(op) ? std::optional(low) : std::nullopt, .out = low, .why = Why::must};
  return true;
}

bool is_match(const OpKey& key, const std::regex& expression) {
  return std::regex_search(key.path, expression) || std::regex_search(to_string(key), expression);
}

}  // namespace

Assignment full_precision(const Graph& graph) { return Assignment(graph.ops.size()); }

Assignment rules(const Graph& graph) {
  Assignment assignment;
  for (const Op& op : graph.ops) {
    require(
        op.rule != CastRule::banned || op.pin.out.has_value(), to_string(op.key),
        "its gradient does not fit 16 bits; use the form that takes logits, or pin it to f32 with `must`");
    assignment.push_back(by_rule(op, assignment));
    apply_pin(op, assignment.back());
  }
  follow_roots(graph, assignment);
  return assignment;
}

Assignment low_precision(const Graph& graph) {
  Assignment assignment;
  for (const Op& op : graph.ops) {
    Types types;
    if (may_lower(op))
      types = {.operands = is_product(op), .out = is_product(op) || (is_follower(op) && reads_data(op))};
    apply_pin(op, types);
    assignment.push_back(types);
  }
  follow_roots(graph, assignment);
  return assignment;
}

bool matches(const Graph& graph, const Must& must) {
  const std::regex expression = compile_pattern(must.match);
  return std::ranges::any_of(
      graph.ops, [&](const Op& op) { return op.kind == Kind::op && is_match(op.key, expression); });
}

Graph pinned(Graph graph, const std::vector<Must>& musts) {
  for (const Must& must : musts) {
    const std::regex expression = compile_pattern(must.match);
    int matched = 0, pins = 0;
    std::vector<std::string> paths;
    for (Op& op : graph.ops) {
      if (op.kind != Kind::op) continue;
      paths.push_back(op.key.path);
      if (!is_match(op.key, expression)) continue;
      ++matched;
      pins += pin(op, must.low);
    }
    require(matched > 0, "plan", "must \"{}\" matches none of the {} ops{}", must.match, paths.size(),
            did_you_mean(must.match, paths));
    require(pins > 0, "plan",
            "must \"{}\" matches {} ops, none of which {}; name products or ops that follow them", must.match,
            matched,
            must.low ? "may be 16-bit, by its rule or because it is fetched" : "has a type of its own");
  }
  return graph;
}

Graph without(Graph graph, const std::vector<int>& ops, Why why) {
  for (const int index : ops) {
    Op& op = graph.ops[static_cast<std::size_t>(index)];
    op.pin = {.operands = is_product(op) ? std::optional(false) : std::nullopt, .out = false, .why = why};
  }
  return graph;
}

Assignment restricted(const Graph& graph, const Assignment& assignment, const std::vector<int>& low) {
  Assignment result(assignment.size());
  for (const int op : low) result[static_cast<std::size_t>(op)] = assignment[static_cast<std::size_t>(op)];
  follow_roots(graph, result);
  return result;
}

std::vector<int> lowered(const Graph& graph, const Assignment& assignment) {
  std::vector<int> ops;
  for (int i = 0; i < graph.count(); ++i) {
    const Types& types = assignment[static_cast<std::size_t>(i)];
    if (graph.at(i).kind == Kind::op && !graph.at(i).view && (types.operands || types.out)) ops.push_back(i);
  }
  return ops;
}

}  // namespace tandem::amp::plan
