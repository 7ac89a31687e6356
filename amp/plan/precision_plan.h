// Precision plan: the types of every op of a model, with reasons, prices and origin. Stored in a file
// (amp/plan/plan_file.h) and followed by a run.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amp/plan/constraints.h"
#include "amp/plan/cost.h"
#include "amp/plan/prediction.h"
#include "amp/plan/rules.h"
#include "core/dtype.h"

namespace tandem::amp::plan {

// Nanoseconds per step under each compared variant; absent if unknown.
struct ArmTimes {
  std::optional<std::int64_t> f32, rules, low, plan;

  bool operator==(const ArmTimes&) const = default;
};

// The place of a cast.
enum class How : std::uint8_t {
  kernel,        // a kernel of its own, on the tape
  store,         // the store of the op that computes the tensor
  load,          // the load of the op that reads it
  working_copy,  // the update of a parameter, once a step
  once,          // an input of the step, once for each version of its storage
};
// "kernel", "store", "load", "copy", "once".
const char* name_of(How how);
std::optional<How> how_from_name(std::string_view name);

struct PrecisionPlan {
  static constexpr int kVersion = 1;

  // A plan applies only to its own model. With other shapes or on another machine its prices are stale, but
  // its types remain valid.
  struct Model {
    std::string digest;
    std::int64_t ops = 0;  // number of entries in `ops`
    std::string phase = "train";
    bool operator==(const Model&) const = default;
  };
  struct Shapes {
    std::string digest;
    std::int64_t batch = 0;
    bool operator==(const Shapes&) const = default;
  };
  struct Machine {
    std::string device;
    std::map<std::string, std::string> libraries;  // with their versions
    double bytes_per_second = 0.0;
    std::int64_t launch_ns = 0;
    std::map<std::string, double> flops;  // per second, by type
    bool operator==(const Machine&) const = default;
  };
  struct Policy {
    std::string name;  // of kPolicies
    Rounding rounding = Rounding::strict;
    std::vector<std::pair<std::string, DType>> must;  // in order: the last match wins
    double lambda = 0.0;
    std::int64_t dead_band_ns = 0;
    bool operator==(const Policy&) const = default;
  };
  static constexpr int kMostExponent = 127;  // of a loss scale; the minimum is its negative
  // log₂ of loss scales: initial, and lowest and highest that fit all layers (amp/calibration.h). Present if
  // the configuration asks for a calibrated scale.
  struct Scale {
    int start = 0;
    std::array<int, 2> window{};
    bool operator==(const Scale&) const = default;
  };
  struct PlannedOp {
    OpKey key;
    std::optional<DType> operands;  // of products
    DType out = DType::f32;
    Why why = Why::rule;
    Price ns;
    bool measured = false;  // else estimated
    bool operator==(const PlannedOp&) const = default;
  };
  struct Cast {
    OpKey of;
    int output = 0;
    DType to = DType::f32;
    int consumers = 0;
    std::int64_t ns = 0;
    How how = How::kernel;
    bool operator==(const Cast&) const = default;
  };

  Model model;
  Shapes shapes;
  DType dtype = DType::bf16;  // the 16-bit type
  bool share = true;          // all readers share a cast; otherwise each has its own, with autocast's bits
  Machine machine;
  Policy policy;
  std::optional<Scale> scale;
  std::vector<PlannedOp> ops;  // in the order of forward
  std::vector<Cast> casts;
  ArmTimes predicted, measured;

  bool operator==(const PrecisionPlan&) const = default;
};

// One plan per phase of a task's step (tasks/task.h), in order; each phase is one forward. Type, policy,
// machine, loss scale and `share` are common.
using PhasePlans = std::vector<PrecisionPlan>;

// " of the generator", for messages after an op; "" for the single phase of most tasks.
std::string phase_suffix(const PrecisionPlan& plan);

inline constexpr std::array<std::string_view, 5> kPolicies = {"rules", "colours", "growth", "cut", "search"};

// Ops, casts, counts and predicted times of an assignment; the caller fills in the rest. `measured` has an
// entry per op of the graph. Prices are the graph's.
PrecisionPlan plan_of(const Graph& graph, const Assignment& assignment, const std::vector<Why>& reasons,
                      DType low, bool share, const std::vector<bool>& measured);

// The decisions of a plan for its own graph: inverse of plan_of. Throws UserError as require_match.
Assignment assignment_of(const PrecisionPlan& plan, const Graph& graph, std::string_view file);

// "sha256:…" over the ops with rule and reads, and over the lines describing modules and parameters
// ("path|describe()|shapes"), in order.
std::string model_digest(const Graph& graph, const std::vector<std::string>& modules);
// Digest over the element counts of all results.
std::string shapes_digest(const Graph& graph);

// The keys of the ops of a graph, in order.
std::vector<OpKey> keys_of(const Graph& graph);
// Throws UserError that names the first differing op, its phase if there are several, and the number of
// differences.
void require_match(const PrecisionPlan& plan, const std::vector<OpKey>& model, std::string_view file);

}  // namespace tandem::amp::plan
