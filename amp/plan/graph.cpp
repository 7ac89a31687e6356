#include "amp/plan/graph.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "core/error.h"

namespace tandem::amp::plan {

namespace {

constexpr std::array<const char*, 8> kWhyNames = {"gain",   "loss",        "rule",     "must",
                                                  "strict", "round-early", "accuracy", "tie"};

void insert_sorted(std::vector<int>& ops, int op) {
  const auto place = std::ranges::lower_bound(ops, op);
  if (place == ops.end() || *place != op) ops.insert(place, op);
}

void check_reads(const Graph& graph, int index) {
  const Op& op = graph.at(index);
  for (const Read& read : op.reads) {
    ensure(read.op >= 0 && read.op < index, "plan", "op {} ({}) reads op {}, which does not come before it",
           index, to_string(op.key), read.op);
    const std::size_t results = graph.at(read.op).results.size();
    ensure(read.result >= 0 && static_cast<std::size_t>(read.result) < results, "plan",
           "op {} ({}) reads result {} of op {}, which has {}", index, to_string(op.key), read.result,
           read.op, results);
  }
}

void check_op(const Op& op) {
  const std::string name = to_string(op.key);
  ensure(op.kind == Kind::op || op.reads.empty(), "plan", "{} is not an op and reads {} tensors", name,
         op.reads.size());
  ensure(!op.view || (op.kind == Kind::op && !is_product(op) && !op.reads.empty()), "plan",
         "{} is a view, but not an op that reads its base", name);
  ensure(!op.view || (!op.fetched && op.pin == Pin{}), "plan",
         "{} is a view and is pinned or fetched; pin or fetch its base", name);
  ensure(op.ns.f32 >= 0 && op.ns.low >= 0, "plan", "{} takes {} and {} ns, expected no negative values", name,
         op.ns.f32, op.ns.low);
  for (const Result& result : op.results)
    ensure(result.elements >= 0 && result.storage_ns >= 0 && result.cast_ns >= 0, "plan",
           "{} has a result of {} elements, {} and {} ns, expected no negative values", name, result.elements,
           result.storage_ns, result.cast_ns);
}

// False when another op than a product reads it.
bool add_products(const ReaderTable& readers, int op, std::vector<int>& products) {
  for (const Readers& result : readers[static_cast<std::size_t>(op)]) {
    if (result.others > 0) return false;
    for (const int product : result.products) insert_sorted(products, product);
    for (const int view : result.views)
      if (!add_products(readers, view, products)) return false;
  }
  return true;
}

}  // namespace

std::string to_string(const OpKey& key) {
  std::string text = key.path;
  if (!key.op.empty()) text += (text.empty() ? "" : " ") + key.op;
  if (key.call > 0) text += fmt::format(" #{}", key.call);
  return text;
}

const char* name_of(Why why) { return kWhyNames[static_cast<std::size_t>(why)]; }

std::optional<Why> why_from_name(std::string_view name) {
  const auto found = std::ranges::find(kWhyNames, name);
  if (found == kWhyNames.end()) return std::nullopt;
  return static_cast<Why>(found - kWhyNames.begin());
}

void check(const Graph& graph) {
  std::set<std::tuple<std::string, std::string, int>> keys;
  const int count = graph.count();
  for (int i = 0; i < count; ++i) {
    const Op& op = graph.at(i);
    ensure(keys.emplace(op.key.path, op.key.op, op.key.call).second, "plan", "{} occurs twice in the graph",
           to_string(op.key));
    check_reads(graph, i);
    check_op(op);
  }
  for (const auto& [a, b] : graph.ties)
    ensure(a >= 0 && b >= 0 && a < count && b < count, "plan", "ops {} and {} of {} are tied", a, b, count);
}

void check(const Graph& graph, const Assignment& assignment) {
  ensure(assignment.size() == graph.ops.size(), "plan", "an assignment of {} ops for a graph of {}",
         assignment.size(), graph.ops.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    ensure(is_product(op) || !assignment[i].operands, "plan",
           "{} is not a product, but its operands have a type", to_string(op.key));
    const int root = root_of(graph, static_cast<int>(i));
    ensure(assignment[i].out == assignment[static_cast<std::size_t>(root)].out, "plan",
           "{} is a view of {} and has another type", to_string(op.key), to_string(graph.at(root).key));
  }
}

bool reads_data(const Op& op) {
  return std::ranges::any_of(op.reads, [](const Read& read) { return read.role == Role::data; });
}

bool may_lower(const Op& op) {
  return op.kind == Kind::op && op.rule != CastRule::none && op.capable && !op.fetched &&
         op.pin.out.value_or(true) && op.pin.operands.value_or(true);
}

int root_of(const Graph& graph, int op) {
  while (graph.at(op).view) op = graph.at(op).reads.front().op;
  return op;
}

void follow_roots(const Graph& graph, Assignment& assignment) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i)
    assignment[i].out = assignment[static_cast<std::size_t>(root_of(graph, static_cast<int>(i)))].out;
}

ReaderTable readers_of(const Graph& graph) {
  ReaderTable readers;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    readers.emplace_back(op.results.size());
    for (std::size_t r = 0; r < op.results.size(); ++r) readers[i][r].others = op.results[r].other_reads;
    for (std::size_t r = 0; r < op.reads.size(); ++r) {
      const Read& read = op.reads[r];
      Readers& of = readers[static_cast<std::size_t>(read.op)][static_cast<std::size_t>(read.result)];
      if (op.view && r == 0) {
        of.views.push_back(static_cast<int>(i));
      } else if (is_product(op) && read.role == Role::data) {
        of.products.push_back(static_cast<int>(i));
      } else {
        ++of.others;
      }
    }
  }
  return readers;
}

std::vector<int> only_products(const Graph& graph, const ReaderTable& readers, int op) {
  std::vector<int> products;
  if (graph.at(op).view || !add_products(readers, op, products)) return {};
  return products;
}

Neighbours neighbours_of(const Graph& graph) {
  Neighbours neighbours{.before = std::vector<std::vector<int>>(graph.ops.size()),
                        .after = std::vector<std::vector<int>>(graph.ops.size())};
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const Read& read : graph.ops[i].reads) {
      if (read.role != Role::data) continue;
      insert_sorted(neighbours.before[i], read.op);
      insert_sorted(neighbours.after[static_cast<std::size_t>(read.op)], static_cast<int>(i));
    }
  }
  return neighbours;
}

}  // namespace tandem::amp::plan
