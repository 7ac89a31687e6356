// A plan: what was decided for every op of a model, why, at which prices, and where. What a file holds
// (amp/plan/plan_file.h) and what a run follows.
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

// Nanoseconds of a step under each of the arms that are compared; absent where nobody knows.
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

  // Plans of another model do not apply. With other shapes or on another machine prices are stale, and types
  // hold.
  struct Model {
    std::string digest;
    std::int64_t ops = 0;  // as many as in `ops`
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
    std::map<std::string, double> flops;  // a second, by type
    bool operator==(const Machine&) const = default;
  };
  struct Policy {
    std::string name;  // of kPolicies
    Rounding rounding = Rounding::strict;
    std::vector<std::pair<std::string, DType>> must;  // in order: the later counts
    double lambda = 0.0;
    std::int64_t dead_band_ns = 0;
    bool operator==(const Policy&) const = default;
  };
  static constexpr int kMostExponent = 127;  // of a loss scale, and the least is its negative
  // log₂ of loss scales: that to start with, and the lowest and the highest that fit all layers
  // (amp/calibration.h). Of plans whose configuration asks for a calibrated one.
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
  bool share = true;          // a cast serves all readers; else one each, with autocast's bits
  Machine machine;
  Policy policy;
  std::optional<Scale> scale;
  std::vector<PlannedOp> ops;  // in the order of forward
  std::vector<Cast> casts;
  ArmTimes predicted, measured;

  bool operator==(const PrecisionPlan&) const = default;
};

// Of a task whose step has several phases (tasks/task.h), in their order: each is a forward of its own. They
// have one type, policy, machine and loss scale, and share casts or do not.
using PhasePlans = std::vector<PrecisionPlan>;

// " of the generator", as messages say it after an op; "" of the one phase that most tasks have.
std::string phase_suffix(const PrecisionPlan& plan);

inline constexpr std::array<std::string_view, 5> kPolicies = {"rules", "colours", "growth", "cut", "search"};

// Ops, casts, their number and the predicted times of an assignment; everything else stays for the caller to
// say. `measured` has an entry for each op of the graph. Prices are the graph's.
PrecisionPlan plan_of(const Graph& graph, const Assignment& assignment, const std::vector<Why>& reasons,
                      DType low, bool share, const std::vector<bool>& measured);

// The decisions of a plan for its own graph: plan_of's inverse. Throws UserError as require_match.
Assignment assignment_of(const PrecisionPlan& plan, const Graph& graph, std::string_view file);

// ---- Whether a plan is of a model

// "sha256:…" over the ops with rule and reads, and over the lines that describe modules and parameters
// ("path|describe()|shapes"), in their order.
std::string model_digest(const Graph& graph, const std::vector<std::string>& modules);
// Over the number of elements of every result.
std::string shapes_digest(const Graph& graph);

// The keys of the ops of a graph, in order.
std::vector<OpKey> keys_of(const Graph& graph);
// Throws UserError that names the first op by which plan and model differ, its phase where there are several,
// and how many do.
void require_match(const PrecisionPlan& plan, const std::vector<OpKey>& model, std::string_view file);

}  // namespace tandem::amp::plan
