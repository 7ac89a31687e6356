#include "nn/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <set>
#include <typeinfo>
#include <unordered_set>

#include "core/backend.h"
#include "core/error.h"
#include "core/pattern.h"
#include "nn/device.h"

namespace tandem::nn {

namespace {

thread_local const ModuleObserverScope* innermost_observer = nullptr;

// Gives the names on a path to the modules below it.
class Container final : public Module {
 public:
  std::string describe() const override { return "Container"; }
};

std::string joined(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

void visit_below(const std::string& path, Module& module,
                 const std::function<void(const std::string&, Module&)>& visitor) {
  visitor(path, module);
  for (const auto& [name, child] : module.children()) visit_below(joined(path, name), *child, visitor);
}

// "Block<nn::Relu>" of "tests::(anonymous namespace)::Block<nn::Relu>": the part after the last "::" outside
// of angle brackets.
std::string without_scope(const std::string& name) {
  int depth = 0;
  for (std::size_t end = name.size(); end > 1; --end) {
    const char last = name[end - 1];
    depth += (last == '>') - (last == '<');
    if (depth == 0 && last == ':' && name[end - 2] == ':') return name.substr(end);
  }
  return name;
}

}  // namespace

ModuleObserverScope::ModuleObserverScope(ModuleObserver& o) : observer(o), outer(innermost_observer) {
  innermost_observer = this;
}
ModuleObserverScope::~ModuleObserverScope() { innermost_observer = outer; }
const ModuleObserverScope* ModuleObserverScope::innermost() { return innermost_observer; }

void Module::notify_enter() {
  for (const auto* scope = innermost_observer; scope; scope = scope->outer) scope->observer.enter(*this);
}

Tensor Module::notify_leave(Tensor output) {
  for (const auto* scope = innermost_observer; scope; scope = scope->outer)
    scope->observer.leave(*this, output);
  for (const auto* scope = innermost_observer; scope; scope = scope->outer)
    output = scope->observer.passed_on(*this, output);
  return output;
}

void Module::notify_leave(std::span<const Tensor> outputs) {
  for (const auto* scope = innermost_observer; scope; scope = scope->outer)
    scope->observer.leave_several(*this, outputs);
}

std::string Module::describe() const {
  const char* mangled = typeid(*this).name();
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  return without_scope(status == 0 ? name.get() : mangled);
}

Tensor Module::forward(const Tensor&) {
  throw UserError(describe(), "has no forward with one input and one output; see its class");
}

TensorList Module::forward_outputs(const TensorList& xs) {
  return {xs.size() == 1 ? forward(xs[0]) : forward_all(xs)};
}

Tensor Module::forward_all(const TensorList& xs) {
  require(xs.size() == 1, describe(), "takes one input, got {}", xs.size());
  return forward(xs[0]);
}

void Module::visit(const std::function<void(const std::string&, Module&)>& visitor) {
  visit_below("", *this, visitor);
}

Module* Module::find(const std::string& path) {
  Module* found = nullptr;
  visit([&](const std::string& at, Module& module) {
    if (!found && at == path) found = &module;
  });
  return found;
}

std::vector<std::pair<std::string, Parameter>> Module::parameter_paths() const {
  std::vector<std::pair<std::string, Parameter>> paths;
  const_cast<Module*>(this)->visit([&](const std::string& path, Module& module) {
    for (const auto& [name, parameter] : module.parameters_)
      paths.emplace_back(joined(path, name), parameter);
  });
  return paths;
}

std::vector<Parameter> Module::parameters() const {
  std::vector<Parameter> unique;
  std::unordered_set<const Leaf*> seen;
  for (auto& [path, parameter] : parameter_paths()) {
    if (!seen.insert(&parameter.leaf()).second) continue;
    parameter.set_name(path);
    unique.push_back(parameter);
  }
  return unique;
}

std::vector<Statistic> Module::statistics() const {
  std::vector<Statistic> all;
  std::set<const Module*> seen;  // a shared module's statistics count once
  const_cast<Module*>(this)->visit([&](const std::string& path, Module& module) {
    if (!seen.insert(&module).second) return;
    for (const Statistic& own : module.statistics_)
      all.push_back({joined(path, own.name), own.live, own.next});
  });
  return all;
}

std::vector<Counter> Module::counters() {
  std::vector<Counter> all;
  std::set<const Module*> seen;
  visit([&](const std::string& path, Module& module) {
    if (!seen.insert(&module).second) return;
    for (OwnCounter& own : module.counters_) all.push_back({joined(path, own.name), &own.live, &own.next});
  });
  return all;
}

std::vector<Constant> Module::constants() const {
  std::vector<Constant> all;
  std::set<const Module*> seen;
  const_cast<Module*>(this)->visit([&](const std::string& path, Module& module) {
    if (!seen.insert(&module).second) return;
    for (const Constant& own : module.constants_) all.push_back({joined(path, own.name), own.value});
  });
  return all;
}

Index Module::parameter_count(bool trainable_only) const {
  Index count = 0;
  for (const Parameter& parameter : parameters()) {
    if (!trainable_only || parameter.trainable()) count += parameter.value().numel();
  }
  return count;
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
}

int Module::freeze(const std::string& names, bool frozen) {
  const std::regex pattern = compile_pattern(names);
  std::unordered_set<const Leaf*> matched;
  for (auto& [path, parameter] : parameter_paths()) {
    if (!std::regex_search(path, pattern)) continue;
    parameter.set_trainable(!frozen);
    matched.insert(&parameter.leaf());
  }
  return static_cast<int>(matched.size());
}

void Module::clear_gradients() {
  for (const auto& [path, parameter] : parameter_paths()) parameter.leaf().clear_gradient();
}

void Module::to(Device device) {
  visit([&](const std::string&, Module& module) {
    for (auto& [name, parameter] : module.parameters_) parameter.to(device);
    for (Statistic& own : module.statistics_) {
      own.live = own.live.to(device);
      own.next = own.next.to(device);
    }
    for (Constant& own : module.constants_) own.value = own.value.to(device);
  });
}

void Module::commit_statistics(bool applied) {
  for (const Statistic& statistic : statistics()) {
    const Tensor& source = applied ? statistic.next : statistic.live;
    const Tensor& target = applied ? statistic.live : statistic.next;
    backend_for(target.device()).copy_bytes(source, target);
    target.storage()->bump_version();
  }
  for (const Counter& counter : counters())
    *(applied ? counter.live : counter.next) = *(applied ? counter.next : counter.live);
}

StatisticBuffers Module::flatten_statistics(Device device) {
  Index total = 0;
  for (const Statistic& statistic : statistics()) total += statistic.live.numel();
  if (total == 0) return {};
  const TensorOptions options{DType::f32, device, MemoryKind::weights};
  const StatisticBuffers buffers{Tensor::empty({total}, options), Tensor::empty({total}, options)};
  Backend& backend = backend_for(device);
  Index first = 0;
  const auto move = [&](Tensor& tensor, const Tensor& buffer) {
    Tensor range = buffer.rows(first, tensor.numel()).viewed(tensor.shape());
    // Only a GPU's backend can copy to and from host memory.
    (tensor.device() == Device{} ? backend : backend_for(tensor.device())).copy_bytes(tensor, range);
    tensor = std::move(range);
  };
  std::set<const Module*> seen;
  visit([&](const std::string&, Module& module) {
    if (!seen.insert(&module).second) return;
    for (Statistic& own : module.statistics_) {
      move(own.live, buffers.live);
      move(own.next, buffers.next);
      first += own.live.numel();
    }
  });
  return buffers;
}

void Module::check_new_name(const std::string& name) const {
  ensure(!name.empty() && name.find('.') == std::string::npos, "module", "\"{}\" is not a valid member name",
         name);
  const auto same = [&](const auto& member) { return member.first == name; };
  const auto named = [&](const auto& member) { return member.name == name; };
  const bool taken = std::ranges::any_of(parameters_, same) || std::ranges::any_of(children_, same) ||
                     std::ranges::any_of(counters_, named) || std::ranges::any_of(statistics_, named) ||
                     std::ranges::any_of(constants_, named);
  ensure(!taken, "module", "\"{}\" is registered twice", name);
}

Parameter Module::add_parameter(std::string name, Parameter parameter) {
  check_new_name(name);
  ensure(parameter.defined(), "module", "parameter \"{}\" is absent", name);
  parameters_.emplace_back(std::move(name), parameter);
  return parameter;
}

const Statistic& Module::add_statistic(std::string name, Tensor live) {
  check_new_name(name);
  Tensor next = live.clone(MemoryKind::weights);
  return statistics_.emplace_back(Statistic{std::move(name), std::move(live), std::move(next)});
}

std::int64_t& Module::add_counter(std::string name) {
  check_new_name(name);
  return counters_.emplace_back(OwnCounter{std::move(name)}).next;
}

const Tensor& Module::add_constant(std::string name, const Tensor& value) {
  check_new_name(name);
  ensure(value.defined(), "module", "constant \"{}\" is absent", name);
  Tensor own = value.detach().to(BuildDevice::current());
  if (own.shares_storage(value)) own = own.clone(MemoryKind::weights);
  return constants_.emplace_back(Constant{std::move(name), std::move(own)}).value;
}

void Module::register_child(const std::string& name, std::shared_ptr<Module> child) {
  check_new_name(name);
  ensure(child != nullptr, "module", "child \"{}\" is absent", name);
  children_.emplace_back(name, std::move(child));
}

Parameter Module::add_parameter_at(const std::string& path, Parameter parameter) {
  const auto [parent, name] = place_of(path);
  return parent->add_parameter(name, std::move(parameter));
}

std::pair<Module*, std::string> Module::place_of(const std::string& path) {
  Module* parent = this;
  std::size_t first = 0;
  for (std::size_t dot; (dot = path.find('.', first)) != std::string::npos; first = dot + 1) {
    const std::string name = path.substr(first, dot - first);
    auto& children = parent->children_;
    const auto found = std::ranges::find(children, name, [](const auto& child) { return child.first; });
    const bool exists = found != children.end();
    if (!exists) parent->register_child(name, std::make_shared<Container>());
    parent = (exists ? *found : children.back()).second.get();
  }
  return {parent, path.substr(first)};
}

ModeScope::ModeScope(Module& module, bool training) {
  module.visit([&](const std::string&, Module& below) { modes_.emplace_back(&below, below.training()); });
  module.train(training);
}

ModeScope::~ModeScope() {
  for (const auto& [module, training] : modes_) module->training_ = training;
}

}  // namespace tandem::nn
