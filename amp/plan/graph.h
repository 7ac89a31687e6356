// Graph: a step for the planner: ops with their reads, cast rules and prices; no tensors.
//
// Two binary decisions are taken per op, 1 meaning 16 bits: the storage type of its results, and, for
// products (rule `lower`), the type of their operands. Kernels of all other ops read either type, so only
// products need casts. Backward has the types of forward: one decision covers both directions.
//
// Everything in amp/plan/ is a pure function of its arguments. Ops are numbered in the order of forward; ties
// are resolved in favour of the first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/op.h"

namespace tandem::amp::plan {

// Identity of an op's call.
struct OpKey {
  std::string path;  // of the calling module; "loss" outside the model
  std::string op;    // name; "" for inputs of the step and parameters, which `path` names
  int call = 0;      // number of the call of that op by that module, from 0 in each forward

  bool operator==(const OpKey&) const = default;
};

// "layer1.0.conv1 conv2d"; from the second call on "layer1.0.conv1 conv2d #1"; for a parameter its path.
std::string to_string(const OpKey& key);

enum class Kind : std::uint8_t {
  op,
  input,      // of the step: images, constants, tables. Stored in f32 unless pinned
  parameter,  // an f32 master; cast to 16 bits it is a working copy, made once a step
};

// Nanoseconds per step.
struct Price {
  std::int64_t f32 = 0, low = 0;

  bool operator==(const Price&) const = default;
};

// A floating output of an op.
struct Result {
  std::int64_t elements = 0;
  bool gradient = true;         // backward computes its gradient
  std::int64_t storage_ns = 0;  // extra time in f32 of its writer and of its readers except products, in both
                                // directions
  std::int64_t cast_ns = 0;     // one cast to the other type, including its gradient
  int other_reads = 0;          // by readers outside the graph, which take either type

  bool operator==(const Result&) const = default;
};

// A floating input of an op: result `result` of the earlier op `op`.
struct Read {
  int op = -1, result = 0;
  Role role = Role::data;

  bool operator==(const Read&) const = default;
};

// Reason for an op's types.
enum class Why : std::uint8_t {
  gain,         // 16 bits are faster
  loss,         // 16 bits are slower, alone or with their casts
  rule,         // its cast rule, or a policy without prices
  must,         // the user pinned it
  strict,       // it would round where autocast does not
  round_early,  // 16 bits for free: only products read it, all of them in 16 bits
  accuracy,     // the search found that it degrades the gradient
  tie,          // 16 bits gain nothing
};

// "gain", …, "round-early", …
const char* name_of(Why why);
std::optional<Why> why_from_name(std::string_view name);

// Decisions taken before any policy.
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
  // For a product: forward and both gradients with operands of that type and a 16-bit result. For other ops
  // only `f32` counts: time besides the storage of inputs and outputs.
  Price ns;
  // For a product: extra time of 16-bit operands with an f32 result, beyond low's price and storage_ns.
  std::int64_t widening_ns = 0;
  bool capable = true;        // has a useful 16-bit kernel
  bool keeps_output = false;  // backward needs its result: softmax, exp, sigmoid
  bool fetched = false;       // its result leaves the step, in f32
  bool one_type = false;      // product whose results have the type of its operands (lstm, gru, rnn)
  // Its results share the memory of its first read, or are its moved values (reshape, permute, slice), and
  // have its type. Pins and fetches belong to that base.
  bool view = false;
  Pin pin;

  bool operator==(const Op&) const = default;
};

struct Graph {
  std::vector<Op> ops;
  std::vector<std::pair<int, int>> ties;  // pairs of ops with the same types

  const Op& at(int op) const { return ops[static_cast<std::size_t>(op)]; }
  int count() const { return static_cast<int>(ops.size()); }
  bool operator==(const Graph&) const = default;
};

// Decision about one op; false: f32. Only products have operands.
struct Types {
  bool operands = false, out = false;

  bool operator==(const Types&) const = default;
};
using Assignment = std::vector<Types>;  // one per op of a graph

// Throws InternalError for an invalid graph: reads of later ops or of missing results, a key that occurs
// twice, negative prices, a source that reads; a view that is a product, reads nothing, is pinned or fetched.
void check(const Graph& graph);
// The same for an assignment that does not fit the graph: another length, operands of a non-product, a view
// whose type differs from its base.
void check(const Graph& graph, const Assignment& assignment);

inline bool is_product(const Op& op) { return op.kind == Kind::op && op.rule == CastRule::lower; }
bool reads_data(const Op& op);  // at least one read is not `keep`
// Whether a policy may lower it: an op with a 16-bit kernel and a type, not pinned to f32 and not fetched.
// The policy checks views and rules.
bool may_lower(const Op& op);
// The op that owns the memory of `op`'s results: itself, or the base of a view.
int root_of(const Graph& graph, int op);
// Gives every view the type of its base.
void follow_roots(const Graph& graph, Assignment& assignment);

// Readers of one result. A reading view is a result with its own readers.
struct Readers {
  std::vector<int> products;  // products that read it, one entry per read
  std::vector<int> views;
  int others = 0;  // reads that accept either type
};

using ReaderTable = std::vector<std::vector<Readers>>;  // by op and result
ReaderTable readers_of(const Graph& graph);
// The products that read results of `op` or its views, in order and without repeats, if there are any and no
// other readers; else none.
std::vector<int> only_products(const Graph& graph, const ReaderTable& readers, int op);

// The ops whose data each op reads, and those that read its data; in order and without repeats.
struct Neighbours {
  std::vector<std::vector<int>> before, after;
};
Neighbours neighbours_of(const Graph& graph);

}  // namespace tandem::amp::plan
