// The graph of a step as the planner sees it: which op reads what, by which rule, at which price; no tensors.
//
// Two binary decisions are taken, 1 meaning 16 bits: the type that the results of an op are stored in, and,
// for products (rule `lower`), the type that their operands are multiplied in. The kernels of all other ops
// read either type, so nothing but products needs a cast. Backward has the types of forward: one decision
// carries both directions.
//
// Everything in amp/plan/ is a pure function of its arguments. Ops are numbered in the order of forward, and
// what has to be chosen among equals is the first in that order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/op.h"

namespace tandem::amp::plan {

// What a call of an op is known by.
struct OpKey {
  std::string path;  // of the module that calls it; "loss" outside of the model
  std::string op;    // its name; "" of an input of the step and of a parameter, which `path` names
  int call = 0;      // calls of that op by that module are counted from 0 in each forward

  bool operator==(const OpKey&) const = default;
};

// "layer1.0.conv1 conv2d"; from the second call on "layer1.0.conv1 conv2d #1"; of a parameter its path.
std::string to_string(const OpKey& key);

enum class Kind : std::uint8_t {
  op,
  input,      // of the step: images, constants, tables. Stored in f32 unless pinned
  parameter,  // an f32 master; cast to 16 bits it is a working copy, made once a step
};

// Nanoseconds of a step.
struct Price {
  std::int64_t f32 = 0, low = 0;

  bool operator==(const Price&) const = default;
};

// A floating tensor that an op makes.
struct Result {
  std::int64_t elements = 0;
  bool gradient = true;         // backward computes its gradient
  std::int64_t storage_ns = 0;  // more time in f32 than in 16 bits, of whoever writes it or, products
                                // apart, reads it, in both directions
  std::int64_t cast_ns = 0;     // one cast of it to the other type, of its gradient included
  std::int64_t kept_bytes = 0;  // more that is kept for backward when it is f32
  int other_reads = 0;          // by what is no op of the graph, and takes either type

  bool operator==(const Result&) const = default;
};

// A floating tensor that an op reads: result `result` of op `op`, which comes earlier.
struct Read {
  int op = -1, result = 0;
  Role role = Role::data;

  bool operator==(const Read&) const = default;
};

// Why an op has the types that it has.
enum class Why : std::uint8_t {
  gain,         // 16 bits are faster
  loss,         // 16 bits are slower, by itself or with the casts that they take
  rule,         // its cast rule, or that of a policy which asks for no price
  must,         // the user pinned it
  strict,       // it would round where autocast does not
  round_early,  // 16 bits at no price: only products read it, all of them in 16 bits
  accuracy,     // the search found it to spoil the gradient
  tie,          // 16 bits gain nothing
};

// "gain", …, "round-early", …
const char* name_of(Why why);
std::optional<Why> why_from_name(std::string_view name);

// Decisions that are taken before any policy is asked.
struct Pin {
  std::optional<bool> operands, out;  // true: 16 bits
  Why why = Why::must;

  bool operator==(const Pin&) const = default;
};

struct Op {
  OpKey key;
  Kind kind = Kind::op;
  CastRule rule = CastRule::none;
  OpKind op_kind = OpKind::other;
  std::vector<Read> reads;
  std::vector<Result> results;  // all of one type
  // Of a product: forward and both gradients with operands of that type and a 16-bit result. Of anything else
  // only `f32` counts: what it takes apart from the storage of what it reads and writes.
  Price ns;
  // Of a product: what operands of 16 bits with an f32 result take more than both of their prices say, which
  // is low's and storage_ns.
  std::int64_t widening_ns = 0;
  std::int64_t kept_bytes = 0;  // of a product: more that it keeps of its operands when they are f32
  double pad_value = 0.0;       // of `pad`
  bool capable = true;          // has a 16-bit kernel worth having
  bool keeps_output = false;    // backward needs its result: softmax, exp, sigmoid
  bool fetched = false;         // its result leaves the step, in f32
  bool one_type = false;        // of a product: its results have the type of its operands (lstm, gru, rnn)
  // Its results lie in the memory of its first read, or are its values moved (reshape, permute, slice), and
  // have its type: what pins or fetches it does so to what it is a view of.
  bool view = false;
  Pin pin;

  bool operator==(const Op&) const = default;
};

struct Graph {
  std::vector<Op> ops;
  std::vector<std::pair<int, int>> ties;  // ops that have the same types

  const Op& at(int op) const { return ops[static_cast<std::size_t>(op)]; }
  int count() const { return static_cast<int>(ops.size()); }
  bool operator==(const Graph&) const = default;
};

// What is decided of one op; false: f32. Only products have operands.
struct Types {
  bool operands = false, out = false;

  bool operator==(const Types&) const = default;
};
using Assignment = std::vector<Types>;  // of every op of a graph

// Throws InternalError for a graph that no trace makes: reads of later ops or of results that are not there,
// an op twice under one key, negative prices, a source that reads; a view that is a product, reads nothing,
// is pinned or fetched.
void check(const Graph& graph);
// And for an assignment that is not of this graph: another length, operands of what is no product, a view
// with another type than what it is a view of.
void check(const Graph& graph, const Assignment& assignment);

inline bool is_product(const Op& op) { return op.kind == Kind::op && op.rule == CastRule::lower; }
bool reads_data(const Op& op);  // at least one read is not `keep`
// Whether a policy may give it 16 bits: an op with a 16-bit kernel, not pinned to f32, not fetched, that
// computes in types at all. Views and rules are the policy's to look at.
bool may_lower(const Op& op);
// The op whose memory the results of `op` lie in: itself, unless it is a view.
int root_of(const Graph& graph, int op);
// Gives every view the type of what it is a view of.
void follow_roots(const Graph& graph, Assignment& assignment);

// Who reads one result. A view that reads it is a result of its own, with its own readers.
struct Readers {
  std::vector<int> products;  // that multiply it: an entry for each read
  std::vector<int> views;
  int others = 0;  // reads that take either type
};

using ReaderTable = std::vector<std::vector<Readers>>;  // by op and result
ReaderTable readers_of(const Graph& graph);
// The products that read results of `op` or views of them, in order and each once, if nothing else does and
// there is one; else none.
std::vector<int> only_products(const Graph& graph, const ReaderTable& readers, int op);

// The ops that read data of each op, and that each reads data of; in order and each once.
struct Neighbours {
  std::vector<std::vector<int>> before, after;
};
Neighbours neighbours_of(const Graph& graph);

}  // namespace tandem::amp::plan
