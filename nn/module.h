// Module: a tree of layers with named parameters, statistics, constants and children.
//
// A module registers its members in its constructor; listings follow the order of registration, and names are
// dotted paths from the root ("layer1.0.conv1.weight"), equal to torchvision's for the same model. Modules
// are created on the heap and not copied. They are independent of precision.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/leaf.h"

namespace tandem::nn {

// State that is not trained by gradient. Training reads and writes `next`, evaluation reads `live`. Both are
// equal before a step's first forward; the end of the step makes `next` live or restores it from `live`
// (optim/step.h, or Module::commit_statistics in a custom loop).
struct Statistic {
  std::string name;   // "bn1.running_mean"
  Tensor live, next;  // same shape
};

// A host-side count that only files need ("bn1.num_batches_tracked"). Training advances `next`; the end of
// the step treats it like a statistic.
struct Counter {
  std::string name;
  std::int64_t *live, *next;  // valid as long as the module
};

// A constant tensor of a module: positions, anchors, a fixed filter. The constructor computes it, so it is
// neither trained nor saved.
struct Constant {
  std::string name;  // "encoder.positions"
  Tensor value;
};

// All statistics of a tree as two flat f32 buffers, for a single commit.
struct StatisticBuffers {
  Tensor live, next;  // absent without statistics
};

class Module;

// Notified when a module starts and ends its forward on this thread, parents around children: for layer-wise
// summaries, profiles, precision by layer. Observes calls through operator(), which modules use for each
// other.
class ModuleObserver {
 public:
  virtual ~ModuleObserver() = default;
  virtual void enter(Module&) {}
  virtual void leave(Module&, const Tensor& /*output*/) {}  // not called when forward throws
  // The same for a module with several outputs (or none); default: leave() with the first output.
  virtual void leave_several(Module& module, std::span<const Tensor> outputs) {
    leave(module, outputs.empty() ? Tensor{} : outputs.front());
  }
  // For a module with one output: replaces the tensor that the caller receives, with the same values. Called
  // after leave(), innermost observer first.
  virtual Tensor passed_on(Module&, const Tensor& output) { return output; }
};

// Adds `observer` within the scope; several may be active.
class ModuleObserverScope {
 public:
  explicit ModuleObserverScope(ModuleObserver& observer);
  ~ModuleObserverScope();
  ModuleObserverScope(const ModuleObserverScope&) = delete;
  ModuleObserverScope& operator=(const ModuleObserverScope&) = delete;
  static const ModuleObserverScope* innermost();

  ModuleObserver& observer;
  const ModuleObserverScope* const outer;
};

class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // One input, one output, as Sequential needs. Throws UserError unless overridden.
  virtual Tensor forward(const Tensor& x);
  // Several inputs, one output. Throws UserError for more than one input unless overridden.
  virtual Tensor forward_all(const TensorList& xs);
  // Several outputs. Default: the one output of the functions above.
  virtual TensorList forward_outputs(const TensorList& xs);
  Tensor operator()(const Tensor& x) {
    return observed([&] { return forward(x); });
  }
  Tensor operator()(const TensorList& xs) {
    return observed([&] { return forward_all(xs); });
  }
  TensorList all_outputs(const TensorList& xs) {
    return observed([&] { return forward_outputs(xs); });
  }

  // Every parameter of the tree, shared ones once; also sets their names: the first path.
  std::vector<Parameter> parameters() const;
  // Every path to a parameter; shared ones have several.
  std::vector<std::pair<std::string, Parameter>> parameter_paths() const;
  std::vector<Statistic> statistics() const;
  std::vector<Counter> counters();
  std::vector<Constant> constants() const;
  // Direct children with their names.
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }
  // Parameters of this module without its children's.
  const std::vector<std::pair<std::string, Parameter>>& own_parameters() const { return parameters_; }
  // Visits this module and all modules below, parents first, a shared module under each of its paths; the
  // root's path is "".
  void visit(const std::function<void(const std::string& path, Module& module)>& visitor);
  // The module at a dotted path, or nullptr; "" is this module.
  Module* find(const std::string& path);

  // Elements of all parameters; shared ones count once.
  Index parameter_count(bool trainable_only = false) const;

  // Training (the default) or evaluation mode; affects dropout and batch norm.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  // Whether training keeps running statistics and counters (KeepStatistics, nn/scopes.h).
  bool keeps_statistics() const { return keeps_statistics_; }

  // Disables (or enables) gradients of parameters whose full name contains a match of the regular expression;
  // returns the number of matches. Throws UserError for an invalid expression.
  int freeze(const std::string& names, bool frozen = true);

  void clear_gradients();

  // Moves parameters, statistics and constants to a device. Call before constructing an optim::Step, which
  // keeps their memory.
  void to(Device device);

  // For loops without optim::Step: commits the statistics and counters that training wrote, or reverts them.
  void commit_statistics(bool applied = true);
  // Moves every statistic into ranges of two new flat buffers on `device`, in the order of statistics().
  // Keeps values; tensors from earlier calls of statistics() refer to the old memory.
  StatisticBuffers flatten_statistics(Device device = {});

  // Name in errors, summaries and exports: "Conv2d(3 → 64, 7×7, stride 2, padding 3)". Default: the class
  // name without namespaces.
  virtual std::string describe() const;

 protected:
  Module() = default;

  // Calls `run` and notifies the observers, which precision by layer needs. A module with other inputs or
  // outputs than one Tensor defines an operator() with its own types that uses this; `run` returns a Tensor,
  // a TensorList, or a struct of Tensors:
  //
  //   struct State { Tensor h, c; };
  //   State operator()(const Tensor& x, const State& s) { return observed([&] { return advance(x, s); }); }
  template <class Run>
  std::invoke_result_t<Run&> observed(Run&& run) {
    using Result = std::invoke_result_t<Run&>;
    if (!ModuleObserverScope::innermost()) [[likely]]
      return run();
    notify_enter();
    Result y = run();
    if constexpr (std::is_same_v<Result, Tensor>) {
      y = notify_leave(std::move(y));
    } else if constexpr (std::is_same_v<Result, TensorList>) {
      notify_leave(std::span<const Tensor>(y));
    } else {
      notify_leave(tensors_of(std::as_const(y)));
    }
    return y;
  }

  // Names must be unique within the module and contain no dot.
  Parameter add_parameter(std::string name, Parameter parameter);
  // Registers running statistics that start at `live`, which is copied for `next`. The reference stays valid
  // and follows flatten_statistics.
  const Statistic& add_statistic(std::string name, Tensor live);
  // Registers a counter that starts at 0, and returns its `next`, which training advances.
  std::int64_t& add_counter(std::string name);
  // Registers a copy of `value`, of any dtype, on the device for modules. The reference stays valid and
  // follows to().
  const Tensor& add_constant(std::string name, const Tensor& value);
  template <class M>
  std::shared_ptr<M> add_child(const std::string& name, std::shared_ptr<M> child) {
    register_child(name, child);
    return child;
  }
  // The same at a dotted path below this module ("mlp.c_fc"), which names of published weights need. Modules
  // on the path that do not exist are created, as containers without a forward.
  Parameter add_parameter_at(const std::string& path, Parameter parameter);
  template <class M>
  std::shared_ptr<M> add_child_at(const std::string& path, std::shared_ptr<M> child) {
    const auto [parent, name] = place_of(path);
    parent->register_child(name, child);
    return child;
  }

 private:
  friend class ModeScope;
  friend class KeepStatistics;
  struct OwnCounter {
    std::string name;
    std::int64_t live = 0, next = 0;
  };

  void register_child(const std::string& name, std::shared_ptr<Module> child);
  // The module that a dotted path names up to its last dot, created if necessary, and the rest of the path.
  std::pair<Module*, std::string> place_of(const std::string& path);
  void check_new_name(const std::string& name) const;
  void notify_enter();
  Tensor notify_leave(Tensor output);
  void notify_leave(std::span<const Tensor> outputs);

  std::vector<std::pair<std::string, Parameter>> parameters_;
  std::deque<Statistic> statistics_;  // stable addresses
  std::deque<OwnCounter> counters_;
  std::deque<Constant> constants_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = true;
  bool keeps_statistics_ = false;
};

using ModulePtr = std::shared_ptr<Module>;

// Training or evaluation mode for a whole tree; restores every module's mode at its end.
class ModeScope {
 public:
  ModeScope(Module& module, bool training);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> modes_;
};

}  // namespace tandem::nn
