// Module: a tree of layers with named parameters, statistics, constants and children.
//
// A module registers what it owns in its constructor; order of registration is the order everything is listed
// in, and names are dotted paths from the root ("layer1.0.conv1.weight"), those of torchvision where it has
// the same model. Modules are created on the heap and not copied; modules know nothing of precision.
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

// State that is not trained by gradient. Training reads and writes `next`, evaluation reads `live`; they are
// equal before a step's first forward, and the end of the step makes `next` live or takes `live` back
// (optim/step.h, or Module::commit_statistics in a loop written by hand).
struct Statistic {
  std::string name;   // "bn1.running_mean"
  Tensor live, next;  // same shape
};

// A count kept on the host for the files that want it ("bn1.num_batches_tracked"); nothing computes with it.
// Training advances `next`, and the end of the step treats it like a statistic.
struct Counter {
  std::string name;
  std::int64_t *live, *next;  // valid as long as the module
};

// A tensor that a module computes with and nothing changes: positions, anchors, a fixed filter. It is made by
// the module's constructor each time, so it is neither trained nor saved.
struct Constant {
  std::string name;  // "encoder.positions"
  Tensor value;
};

// All statistics of a tree as two flat f32 buffers, so that one commit serves them all.
struct StatisticBuffers {
  Tensor live, next;  // absent when there are no statistics
};

class Module;

// Told when a module starts and ends its forward on this thread, parents around children: layer-wise
// summaries, profiles, precision by layer. Modules call each other through operator(), which is what is
// observed.
class ModuleObserver {
 public:
  virtual ~ModuleObserver() = default;
  virtual void enter(Module&) {}
  virtual void leave(Module&, const Tensor& /*output*/) {}  // not called when forward throws
  // The same of a module with several outputs (or none); unless overridden it is told as one with the first.
  virtual void leave_several(Module& module, std::span<const Tensor> outputs) {
    leave(module, outputs.empty() ? Tensor{} : outputs.front());
  }
  // Of a module with one output: what its caller gets in place of it, of the same values. After leave(); of
  // several observers the innermost comes first.
  virtual Tensor passed_on(Module&, const Tensor& output) { return output; }
};

// Adds `observer` for the life of the scope; several may be active.
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

  // One input, one output: what Sequential composes. Throws UserError unless overridden.
  virtual Tensor forward(const Tensor& x);
  // Several inputs, one output. Throws UserError for more than one input unless overridden.
  virtual Tensor forward_all(const TensorList& xs);
  // Several outputs, of one input or several. Unless overridden, the one output of the forms above.
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

  // Every parameter of the tree, each once however often it is shared; also writes their names: the first
  // path.
  std::vector<Parameter> parameters() const;
  // Every path to a parameter, shared ones with each of theirs.
  std::vector<std::pair<std::string, Parameter>> parameter_paths() const;
  std::vector<Statistic> statistics() const;
  std::vector<Counter> counters();
  std::vector<Constant> constants() const;
  // Direct children with their names.
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }
  // Parameters of this module itself, without its children's.
  const std::vector<std::pair<std::string, Parameter>>& own_parameters() const { return parameters_; }
  // Visits this module and everything below it, parents first, a shared module under each of its paths; the
  // root's path is "".
  void visit(const std::function<void(const std::string& path, Module& module)>& visitor);
  // The module at a dotted path, nullptr when there is none; "" is this module.
  Module* find(const std::string& path);

  // Elements of all parameters, shared ones once.
  Index parameter_count(bool trainable_only = false) const;

  // Training (the default) or evaluation: dropout and batch norm differ.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  // Whether training leaves running statistics and counters as they are (KeepStatistics, nn/scopes.h).
  bool keeps_statistics() const { return keeps_statistics_; }

  // Parameters whose whole name contains a match of the regular expression stop (or resume) collecting
  // gradients; returns how many matched. Throws UserError for what is none.
  int freeze(const std::string& names, bool frozen = true);

  void clear_gradients();

  // Moves parameters, statistics and constants to a device; before an optim::Step is made, which keeps their
  // memory.
  void to(Device device);

  // For loops without optim::Step: makes what training wrote live, counters included, or takes it back.
  void commit_statistics(bool applied = true);
  // Moves every statistic into ranges of two new flat buffers on `device`, in the order of statistics().
  // Values are kept; tensors that statistics() returned before name the old memory.
  StatisticBuffers flatten_statistics(Device device = {});

  // What errors, summaries and exports call it: "Conv2d(3 → 64, 7×7, stride 2, padding 3)". Unless
  // overridden, the name of its class without namespaces.
  virtual std::string describe() const;

 protected:
  Module() = default;

  // Runs `run` and tells the observers, to whom precision by layer belongs. A module whose inputs and outputs
  // are more than a Tensor each offers an operator() of its own types, which goes through here; `run` gives a
  // Tensor, a TensorList, or a struct of Tensors:
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
  // Registers a counter that starts at 0, and gives what training advances: its `next`.
  std::int64_t& add_counter(std::string name);
  // Registers a copy of `value`, of any dtype, on the device that modules are built on. The reference stays
  // valid and follows to().
  const Tensor& add_constant(std::string name, const Tensor& value);
  template <class M>
  std::shared_ptr<M> add_child(const std::string& name, std::shared_ptr<M> child) {
    register_child(name, child);
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

// Training or evaluation mode for a whole tree; at its end every module is back in the mode it had.
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
