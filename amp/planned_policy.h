// Application of a precision plan (amp/plan/precision_plan.h) op by op, without a graph.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "amp/autocast.h"
#include "amp/plan/precision_plan.h"
#include "autograd/observers.h"
#include "nn/module.h"

namespace tandem::amp {

// Path of ops outside the model's modules.
inline constexpr std::string_view kOutsideModel = "loss";

// Whether a precision plan decides an op of a training forward: it has a cast rule, it reads floating inputs,
// and the tape is on. Ops without a tape, such as those on carried state, follow the cast rules. Both tracing
// and following a plan use this.
bool is_planned(const OpInfo& info, std::span<const Tensor> inputs);

// A precision plan of one or several phases, looked up for the modules of one model. Valid as long as the
// model; immutable after construction, so several threads may use it.
class PlannedTypes {
 public:
  struct Entry {
    const nn::Module* module = nullptr;  // the innermost of the model's; nullptr: outside of them
    const OpInfo* op = nullptr;
    std::size_t number = 0;  // in the plan of its phase
    bool product = false;
    bool keeps_type = false;  // the kernel's output type is its input type
    DType operands = DType::f32, out = DType::f32;
  };

  // `file`: the plan's name in messages. Throws UserError when `precision` is not level O1 of the plan's
  // 16-bit type or has lists or layer rules; when the model lacks a layer or the program an op of the plan;
  // or when only one of them treats an op as a product.
  PlannedTypes(plan::PhasePlans phases, std::string file, const Precision& precision, nn::Module& model);
  PlannedTypes(plan::PrecisionPlan plan, std::string file, const Precision& precision, nn::Module& model)
      : PlannedTypes(plan::PhasePlans{std::move(plan)}, std::move(file), precision, model) {}

  std::size_t phases() const { return phases_.size(); }
  const std::vector<Entry>& entries(std::size_t phase = 0) const { return entries_[phase]; }
  const plan::PrecisionPlan& plan(std::size_t phase = 0) const { return phases_[phase]; }
  const std::string& file() const { return file_; }
  const nn::Module& model() const { return model_; }
  bool has(const nn::Module& module) const { return paths_.contains(&module); }
  std::string path_of(const nn::Module* module) const;
  // Entries of that module and op, in order, of the first phase that has any; evaluating batch norm uses
  // those of training.
  std::span<const Entry> find(const nn::Module* module, const OpInfo& op) const;
  // Policy for ops that the plan does not list.
  CastPolicy& rules() const { return *rules_; }
  bool rounds_weight_gradients() const { return rounds_weight_gradients_; }

 private:
  using ByOp = std::map<std::pair<const nn::Module*, const OpInfo*>, std::vector<Entry>>;

  Entry entry_of(const plan::PrecisionPlan& plan, std::size_t number) const;

  plan::PhasePlans phases_;
  std::string file_;
  nn::Module& model_;
  bool rounds_weight_gradients_;
  std::unique_ptr<CastPolicy> rules_;
  std::unordered_map<const nn::Module*, std::string> paths_;
  std::vector<std::vector<Entry>> entries_;  // by phase
  ByOp by_op_;
};

// Follows a plan through one forward of a phase; each Autocast makes a new one.
//
// In training, a cursor compares the module and the op of each call with the next entry (two pointers). A
// difference is a UserError that names the op and both sides. Ops that move values need no decision and may
// vary between forwards (extents of 1, carried state): a plan lists them, but they are not compared. In
// evaluation other ops run in another order: entries are found by key, calls being counted within each
// outermost call of a module, and unlisted ops follow the cast rules.
//
// With PrecisionPlan::share, a tensor is cast once for all readers; the casts are held until the forward
// ends. Without it every reader has its own cast, as under CastPolicy.
class PlannedPolicy final : public PrecisionPolicy, public nn::ModuleObserver {
 public:
  // Throws UserError when the plan lacks the phase.
  explicit PlannedPolicy(const PlannedTypes& types, std::size_t phase = 0);

  DType prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) override;
  // Throws UserError when entries are left.
  void finish() const;

  void enter(nn::Module& module) override;
  void leave(nn::Module& module, const Tensor& output) override;

 private:
  using Entry = PlannedTypes::Entry;
  enum class Mode : std::uint8_t { undecided, follows, looks_up };
  struct Shared {
    Tensor from, cast;  // `from` is held if nothing on the tape distinguishes it from later tensors
    GradientEdge edge;
    const void* start = nullptr;
    Shape shape;
  };

  const Entry* next(const OpInfo& info);
  const Entry* look_up(const OpInfo& info);
  [[noreturn]] void fail(const OpInfo& info) const;
  Tensor converted(const Tensor& tensor, DType to);

  const PlannedTypes& types_;
  const std::size_t phase_;
  std::size_t cursor_ = 0;
  Mode mode_ = Mode::undecided;
  std::vector<const nn::Module*> running_;  // the innermost module of the model at each depth
  std::vector<Shared> shared_;
  std::unordered_map<const Entry*, std::size_t> calls_;  // in evaluation: entries used, by list of entries
  nn::ModuleObserverScope observed_;
};

}  // namespace tandem::amp
