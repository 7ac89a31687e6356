// Precision plans of each family: traced, followed, and equal to autocast where they agree.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "amp/plan/cut.h"
#include "amp/plan/plan_file.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "core/error.h"
#include "tests/train/planned_families.h"

using namespace tandem;
using namespace tandem::testing;
using amp::plan::Assignment;
using amp::plan::Graph;
using amp::plan::Kind;
using Catch::Contains;

namespace {

// Stands in front of a policy, and notes the type of the first result of every op that a plan gives types to.
class TypeWatch final : public OpObserver, public PrecisionPolicy {
 public:
  explicit TypeWatch(PrecisionPolicy* policy) : policy_(policy) {}

  std::vector<std::pair<std::string, DType>> types;

  DType prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) override {
    const bool outer = !std::exchange(preparing_, true);
    if (outer && amp::is_planned(info, inputs)) frames_.back() = true;
    const DType type = outer && policy_ ? policy_->prepare(info, inputs, common) : common;
    if (outer) preparing_ = false;
    return type;
  }
  void before_forward(const OpInfo&, std::span<const Tensor>) override { frames_.push_back(false); }
  void after_forward(const OpInfo& info, std::span<const Tensor>, std::span<const Tensor> outputs) override {
    if (frames_.back() && !info.traits.moves_values()) types.emplace_back(info.name, outputs.front().dtype());
    casts += std::string(info.name) == "cast";
    frames_.pop_back();
  }

  int casts = 0;

 private:
  PrecisionPolicy* const policy_;
  bool preparing_ = false;
  std::vector<bool> frames_;
};

struct Watched {
  std::vector<std::pair<std::string, DType>> types;
  int casts = 0;
};

Watched watch(PlannedSteps& steps, const amp::ResolvedPrecision& plan) {
  const amp::Autocast autocast(plan, steps.phase);
  TypeWatch watch(PrecisionScope::active());
  const ObserverScope observed(watch);
  const PrecisionScope asked(&watch);
  steps.forward();
  return {watch.types, watch.casts};
}

// Of the ops that a plan gives types to, as it has them.
std::vector<std::pair<std::string, DType>> planned_types_of(const Graph& graph,
                                                            const amp::plan::PrecisionPlan& plan) {
  std::vector<std::pair<std::string, DType>> types;
  std::size_t next = 0;
  for (const amp::plan::Op& op : graph.ops) {
    if (op.kind != Kind::op) continue;
    const auto& planned = plan.ops[next++];
    if (op.rule != CastRule::none && !find_op(op.key.op)->traits.moves_values())
      types.emplace_back(op.key.op, planned.out);
  }
  return types;
}

void check_types(const Graph& graph, PlannedSteps& steps, const amp::ResolvedPrecision& plan) {
  const auto planned = planned_types_of(graph, steps.plan);
  const auto seen = watch(steps, plan).types;
  REQUIRE(seen.size() == planned.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    INFO(i << " " << planned[i].first);
    CHECK(seen[i].first == planned[i].first);
    if (is_floating(seen[i].second)) CHECK(name_of(seen[i].second) == name_of(planned[i].second));
  }
}

// Any types that ops can have.
Assignment drawn(const Graph& graph, unsigned seed) {
  std::mt19937 random(seed);
  const auto readers = amp::plan::readers_of(graph);
  Assignment assignment;
  for (int i = 0; i < graph.count(); ++i) {
    const amp::plan::Op& op = graph.at(i);
    amp::plan::Types types;
    const bool follows = op.rule == CastRule::neutral || op.rule == CastRule::widest;
    if (is_product(op)) {
      types = {random() % 2 == 0, random() % 2 == 0};
      if (op.one_type) types.operands = types.out;
    } else if (may_lower(op) && follows && reads_data(op)) {
      types.out = random() % 2 == 0;
    } else if (may_lower(op) && !op.keeps_output && !only_products(graph, readers, i).empty()) {
      types.out = random() % 2 == 0;
    }
    if (op.fetched) types.out = false;
    assignment.push_back(types);
  }
  follow_roots(graph, assignment);
  return assignment;
}

}  // namespace

TEST_CASE("the step of every family is traced, alike for batches of any size", "[planned]") {
  for (const std::string& name : planned_forwards()) {
    INFO(name);
    const PlannedFamily family(name);
    const amp::TracedModel traced = family.traced();
    PlannedSteps steps(family);
    const amp::TracedModel host = amp::trace(steps.task->model(), [&] { return steps.forward(); });
    CHECK(amp::plan::keys_of(traced.graph) == amp::plan::keys_of(host.graph));
    CHECK(traced.model_digest() == host.model_digest());
    CHECK(traced.shapes_digest() == host.shapes_digest());
    const auto count = [&](const auto& is) { return std::ranges::count_if(traced.graph.ops, is); };
    CHECK(count([](const auto& op) { return op.fetched; }) == (name == "detection" ? 0 : 1));
    CHECK(count([](const auto& op) { return is_product(op); }) > 0);
    // A discriminator learns from images that are made without a tape.
    const nn::Module& read = name == "discriminator" ? *steps.task->phases()[0].trained : steps.task->model();
    CHECK(static_cast<std::size_t>(count([](const auto& op) { return op.kind == Kind::parameter; })) ==
          read.parameters().size());
    // A second trace is the same, and so is one of another batch but for its shapes.
    CHECK(family.traced().graph == traced.graph);
    CHECK(family.traced(2).model_digest() == traced.model_digest());
  }
}

TEST_CASE("a plan by the cast rules without shared casts is level O1, bit for bit", "[planned]") {
  for (const std::string precision : {"amp_bf16", "amp_fp16"})
    for (const std::string& name : planned_forwards()) {
      INFO(name << " " << precision);
      const PlannedFamily family(name, precision);
      const Graph graph = family.traced().graph;
      PlannedSteps autocast(family), planned(family);
      const amp::ResolvedPrecision o1(train::precision_of(family.loaded.config), autocast.task->model());
      const amp::ResolvedPrecision plan = planned.planned(graph, amp::plan::rules(graph), /*share=*/false);
      const bool long_run =
          precision == "amp_bf16" && (name == "classification" || name == "language" || name == "detection");
      for (std::uint32_t step = 0; step < (long_run ? 50 : 4); ++step) {
        const auto expected = autocast.run(o1, step), got = planned.run(plan, step);
        REQUIRE(expected.loss == got.loss);
        // What overflows in FP16 is none in both.
        REQUIRE(std::ranges::equal(expected.gradients, got.gradients, [](float a, float b) {
          return a == b || (std::isnan(a) && std::isnan(b));
        }));
      }
      CHECK(watch(autocast, o1).types == watch(planned, plan).types);
      check_types(graph, planned, plan);
    }
}

TEST_CASE("ops have the types that a plan gives them, whatever it gives", "[planned]") {
  for (const std::string& name : planned_forwards()) {
    const PlannedFamily family(name);
    const Graph graph = family.traced().graph;
    PlannedSteps steps(family);
    for (unsigned seed = 1; seed <= 6; ++seed) {
      INFO(name << " " << seed);
      const amp::ResolvedPrecision plan = steps.planned(graph, drawn(graph, seed), seed % 2 == 0);
      check_types(graph, steps, plan);
      const auto outcome = steps.run(plan, seed);
      CHECK(std::isfinite(outcome.loss));
      CHECK(std::ranges::all_of(outcome.gradients, [](float g) { return std::isfinite(g); }));
    }
    INFO(name);
    const amp::ResolvedPrecision full = steps.planned(graph, amp::plan::full_precision(graph), true);
    PlannedSteps other(family);
    // The images that a discriminator is shown are made without a tape, by the cast rules.
    for (std::uint32_t step = 0; step < 2 && name != "discriminator"; ++step) {
      PlannedSteps fp32(family), same(family);
      const amp::ResolvedPrecision none(amp::Precision::fp32());
      CHECK(fp32.run(none, step) ==
            same.run(same.planned(graph, amp::plan::full_precision(graph), true), step));
    }
    check_types(graph, steps, steps.planned(graph, amp::plan::low_precision(graph), true));
  }
}

TEST_CASE("a shared cast is one, with the values of many", "[planned]") {
  const PlannedFamily family("detection");
  const Graph graph = family.traced().graph;
  // Everything between products is f32, so that each feature map is cast for the two heads that read it.
  Assignment assignment = amp::plan::full_precision(graph);
  for (std::size_t i = 0; i < assignment.size(); ++i)
    if (is_product(graph.ops[i])) assignment[i].operands = true;
  PlannedSteps steps(family);
  const amp::ResolvedPrecision apart = steps.planned(graph, assignment, false);
  const int each = watch(steps, apart).casts;
  const double loss = steps.forward().item();
  const amp::ResolvedPrecision shared = steps.planned(graph, assignment, true);
  const int once = watch(steps, shared).casts;
  std::int64_t casts = 0, consumers = 0;
  for (const auto& cast : steps.plan.casts)
    if (cast.how != amp::plan::How::working_copy) {
      ++casts;
      consumers += cast.consumers;
    }
  CHECK(once == casts);
  CHECK(each == consumers);
  CHECK(once < each);
  CHECK(std::isfinite(loss));
  PlannedSteps one(family), other(family);
  CHECK(one.run(one.planned(graph, assignment, false)).loss ==
        other.run(other.planned(graph, assignment, true)).loss);
}

TEST_CASE("a forward that is not the plan's is told by op, with both sides", "[planned]") {
  const PlannedFamily family("classification");
  const Graph graph = family.traced().graph;
  PlannedSteps steps(family);
  const amp::Precision precision = train::precision_of(family.loaded.config);
  steps.planned(graph, amp::plan::rules(graph), true);
  const amp::plan::PrecisionPlan good = steps.plan;
  const auto error_of = [&](const std::function<void(amp::plan::PrecisionPlan&)>& change) {
    amp::plan::PrecisionPlan plan = good;
    change(plan);
    return user_error_of([&] {
      const amp::ResolvedPrecision changed(
          std::make_shared<const amp::PlannedTypes>(plan, "plan.json", precision, steps.task->model()));
      steps.run(changed);
    });
  };
  const auto at = [&](const char* path, const char* op) {
    const auto found =
        std::ranges::find_if(good.ops, [&](const auto& o) { return o.key.path == path && o.key.op == op; });
    REQUIRE(found != good.ops.end());
    return found - good.ops.begin();
  };
  const auto first = at("layer1.0.conv1", "conv2d"), second = at("layer1.0.conv2", "conv2d");
  CHECK_THAT(
      error_of([&](auto& plan) { std::swap(plan.ops[first], plan.ops[second]); }),
      Contains(fmt::format("op {} is layer1.0.conv2 conv2d in plan.json, layer1.0.conv1 conv2d in this "
                           "forward; make it again: tandem plan CONFIG",
                           first)));
  CHECK_THAT(error_of([&](auto& plan) { plan.ops.erase(plan.ops.begin() + second); }),
             Contains("layer1.0.conv2 conv2d in this forward"));
  CHECK_THAT(error_of([&](auto& plan) { plan.ops.resize(5); }), Contains("ends after 5 ops"));
  CHECK_THAT(error_of([&](auto& plan) {
               auto extra = plan.ops.back();
               ++extra.key.call;
               plan.ops.push_back(extra);
             }),
             Contains("this forward ends before it"));
  CHECK_THAT(error_of([&](auto& plan) { plan.ops[first].key.path = "layer1.0.conv9"; }),
             Contains("this model has no layer layer1.0.conv9; did you mean \"layer1.0.conv"));
  CHECK_THAT(error_of([&](auto& plan) { plan.ops[first].key.op = "conv9d"; }),
             Contains("this program has no op conv9d"));
  CHECK_THAT(error_of([&](auto& plan) { plan.ops[first].operands.reset(); }), Contains("a product"));
  // What went wrong leaves nothing behind.
  const amp::ResolvedPrecision again(
      std::make_shared<const amp::PlannedTypes>(good, "plan.json", precision, steps.task->model()));
  CHECK(std::isfinite(steps.run(again).loss));
}

TEST_CASE("a plan goes with its own precision alone", "[planned]") {
  const PlannedFamily family("classification");
  const Graph graph = family.traced().graph;
  PlannedSteps steps(family);
  steps.planned(graph, amp::plan::rules(graph), true);
  const auto error_of = [&](const amp::Precision& precision) {
    return user_error_of([&] { amp::PlannedTypes(steps.plan, "plan.json", precision, steps.task->model()); });
  };
  CHECK_THAT(error_of(amp::Precision::amp_fp16()),
             Contains("plan.json is for bf16, but precision.dtype is f16"));
  CHECK_THAT(error_of(amp::Precision::o2(DType::bf16)), Contains("use level O1"));
  amp::Precision listed = amp::Precision::amp_bf16();
  listed.lists.deny = {"relu"};
  CHECK_THAT(error_of(listed), Contains("lists and layers have no effect"));
  amp::Precision layered = amp::Precision::amp_bf16();
  layered.layers = {{"^fc", DType::f32}};
  CHECK_THAT(error_of(layered), Contains("lists and layers have no effect"));
}

TEST_CASE("an evaluation finds its ops in the plan by key", "[planned]") {
  const PlannedFamily family("classification");
  const Graph graph = family.traced().graph;
  PlannedSteps steps(family);
  const amp::ResolvedPrecision plan = steps.planned(graph, amp::plan::rules(graph), false);
  const amp::ResolvedPrecision o1(train::precision_of(family.loaded.config), steps.task->model());
  const nn::ModeScope evaluation(steps.task->model(), false);
  const auto types_of = [&](const amp::ResolvedPrecision& of, int batches) {
    const amp::Autocast autocast(of);
    TypeWatch watch(PrecisionScope::active());
    const ObserverScope observed(watch);
    const PrecisionScope asked(&watch);
    for (int i = 0; i < batches; ++i) steps.forward();
    autocast.finish();
    return watch.types;
  };
  CHECK(types_of(plan, 3) == types_of(o1, 3));
  // And has other types than the cast rules where the plan has.
  Assignment full = amp::plan::full_precision(graph);
  const amp::ResolvedPrecision wide = steps.planned(graph, full, false);
  for (const auto& [op, type] : types_of(wide, 2)) {
    INFO(op);
    if (is_floating(type)) CHECK(type == DType::f32);
  }
}

namespace {

// Both phases of a small GAN, with their plans by level O1's rules.
struct PlannedGan {
  explicit PlannedGan(const std::string& precision = "amp_bf16")
      : discriminator("discriminator", precision), generator("generator", precision) {
    for (const PlannedFamily* phase : {&discriminator, &generator}) {
      const amp::TracedModel traced = phase->traced();
      PlannedSteps steps(*phase);
      steps.planned(traced.graph, amp::plan::rules(traced.graph), /*share=*/false);
      steps.plan.model.digest = traced.model_digest();
      steps.plan.policy.name = "rules";
      phases.push_back(steps.plan);
    }
  }

  PlannedFamily discriminator, generator;
  amp::plan::PhasePlans phases;
};

// Iterations of both phases: the losses, and the weights after them.
std::vector<float> iterations(const PlannedGan& gan,
                              const std::function<amp::ResolvedPrecision(nn::Module& model)>& plan_for) {
  PlannedSteps steps(gan.discriminator);
  const amp::ResolvedPrecision plan = plan_for(steps.task->model());
  std::vector<float> values;
  for (std::uint32_t step = 0; step < 4; ++step) {
    for (steps.phase = 0; steps.phase < 2; ++steps.phase)
      values.push_back(static_cast<float>(steps.run(plan, step, steps.phase == 1).loss));
  }
  for (const Parameter& parameter : steps.task->model().parameters()) {
    const std::vector<float> weights = parameter.value().to_vector<float>();
    values.insert(values.end(), weights.begin(), weights.end());
  }
  return values;
}

}  // namespace

TEST_CASE("iterations of two networks follow the plan of each phase: by the cast rules, level O1's bits",
          "[planned]") {
  for (const std::string precision_name : {"amp_bf16", "amp_fp16"}) {
    INFO(precision_name);
    const PlannedGan gan(precision_name);
    const amp::Precision precision = train::precision_of(gan.discriminator.loaded.config);
    const auto o1 =
        iterations(gan, [&](nn::Module& model) { return amp::ResolvedPrecision(precision, model); });
    const auto planned = iterations(gan, [&](nn::Module& model) {
      return amp::ResolvedPrecision(
          std::make_shared<const amp::PlannedTypes>(gan.phases, "plan.json", precision, model));
    });
    CHECK(o1 == planned);
  }
}

TEST_CASE("a forward that is not the phase's is told with the phase", "[planned]") {
  const PlannedGan gan;
  const amp::Precision precision = train::precision_of(gan.discriminator.loaded.config);
  const auto error_of = [&](const std::function<void(amp::plan::PhasePlans&)>& change) {
    amp::plan::PhasePlans phases = gan.phases;
    change(phases);
    return user_error_of([&] {
      iterations(gan, [&](nn::Module& model) {
        return amp::ResolvedPrecision(
            std::make_shared<const amp::PlannedTypes>(phases, "plan.json", precision, model));
      });
    });
  };
  CHECK_THAT(error_of([](auto& phases) { std::swap(phases[0], phases[1]); }),
             Contains("op 0 of the generator is generator.main.0 conv_transpose2d in plan.json, "
                      "discriminator.main.0 conv2d in this forward"));
  CHECK_THAT(error_of([](auto& phases) { phases.pop_back(); }),
             Contains("plan.json has 1 phases, but a step of this task has more"));
  CHECK_THAT(error_of([](auto& phases) { phases[1].ops.resize(4); }),
             Contains("plan.json ends after 4 ops of the generator"));
  CHECK_THAT(error_of([](auto& phases) {
               auto extra = phases[1].ops.back();
               ++extra.key.call;
               phases[1].ops.push_back(extra);
             }),
             Contains("of the generator is ") && Contains("this forward ends before it"));
  CHECK_THAT(error_of([](auto& phases) { phases[0].ops[0].key.path = "discriminator.main.99"; }),
             Contains("op 0 of the discriminator is discriminator.main.99 conv2d"));
}

TEST_CASE("an evaluation of two networks finds an op in the phase that has it", "[planned]") {
  const PlannedGan gan;
  const amp::Precision precision = train::precision_of(gan.discriminator.loaded.config);
  amp::plan::PhasePlans phases = gan.phases;
  for (auto& op : phases[1].ops) {  // the generator's phase in f32, the layers of both among them
    if (op.operands) op.operands = DType::f32;
    op.out = DType::f32;
  }
  PlannedSteps steps(gan.generator);
  const amp::PlannedTypes types(phases, "plan.json", precision, steps.task->model());
  std::map<std::string, const nn::Module*> modules;
  steps.task->model().visit([&](const std::string& path, nn::Module& module) { modules[path] = &module; });
  for (const OpInfo* info : all_op_infos()) {
    if (std::string(info->name) == "conv2d") {
      const auto found = types.find(modules.at("discriminator.main.0"), *info);
      REQUIRE(found.size() == 2);  // of real images and of made ones, as the discriminator's phase has them
      CHECK(found[0].out == DType::bf16);
    } else if (std::string(info->name) == "conv_transpose2d") {
      const auto found = types.find(modules.at("generator.main.0"), *info);
      REQUIRE(found.size() == 1);
      CHECK(found[0].out == DType::f32);
    }
  }
}

TEST_CASE("a plan of two networks is compared phase by phase before a run", "[planned]") {
  const TemporaryDirectory directory;
  const PlannedGan gan;
  const std::string path = (directory.path() / "plan.json").string();
  const auto checked = [&](const amp::plan::PhasePlans& phases, std::vector<std::string> overrides = {}) {
    directory.write("plan.json", amp::plan::plan_text(phases));
    overrides.insert(overrides.end(), {"data.batch_size=4", "model.noise=8",
                                       R"(precision={"level":"O1","dtype":"bf16","plan":")" + path + "\"}"});
    const config::Loaded loaded = config::load("dcgan_fashion", overrides);
    train::require_own_plan(loaded, config::describe_data(loaded.config));
  };
  const auto error_of = [&](const amp::plan::PhasePlans& phases, const std::string& width = "4") {
    return user_error_of([&] { checked(phases, {"model.width=" + width}); });
  };
  checked(gan.phases, {"model.width=4"});
  CHECK_THAT(error_of({gan.phases[1], gan.phases[0]}),
             Contains("is for the phases generator, discriminator, and a step of this task has the phases "
                      "discriminator, generator"));
  CHECK_THAT(error_of({gan.phases[0]}), Contains("is for the phase discriminator, and"));
  CHECK_THAT(error_of(gan.phases, "8"),
             Contains("of the discriminator is for a model with the same ops but other layers or rules"));
  amp::plan::PhasePlans other = gan.phases;
  other[1].model.digest = "sha256:0";
  CHECK_THAT(error_of(other), Contains("of the generator is for a model with the same ops"));
  other = gan.phases;
  std::swap(other[1].ops[0], other[1].ops[3]);
  CHECK_THAT(error_of(other), Contains("op 0 of the generator is ") && Contains("in this model (2 differ)"));
}

TEST_CASE("losses that have a loss scale each have no forward to plan", "[planned]") {
  const config::Loaded loaded = config::load(
      "dcgan_fashion", {"data.batch_size=2", R"(precision={"level":"O1","dtype":"fp16","scaler":)"
                                             R"({"mode":"dynamic","scope":"loss"}})"});
  CHECK_THAT(user_error_of([&] { train::trace_of(loaded, config::describe_data(loaded.config)); }),
             Contains("computes the 2 losses of the discriminator separately"));
}

TEST_CASE("a configuration's plan is read, compared with the model, and refused where it is not its own",
          "[planned]") {
  const TemporaryDirectory directory;
  const PlannedFamily family("classification");
  const amp::TracedModel traced = family.traced();
  PlannedSteps steps(family);
  steps.planned(traced.graph, amp::plan::rules(traced.graph), true);
  steps.plan.model.digest = traced.model_digest();
  steps.plan.policy.name = "rules";
  const std::string file = directory.write("plan.json", amp::plan::plan_text({steps.plan}));
  const auto with_plan = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"data.batch_size=8", "data.image_size=8",
                                       R"(precision={"level":"O1","dtype":"bf16","plan":")" + file + "\"}"});
    return config::load("resnet20_synthetic", overrides);
  };
  const auto checked = [&](const config::Loaded& loaded) {
    train::require_own_plan(loaded, config::describe_data(loaded.config));
  };
  const config::Loaded own = with_plan({"model.width=4"});
  checked(own);
  CHECK(train::resolve_precision(own, steps.task->model()) != nullptr);
  CHECK(own.config.precision.label() == "O1/bf16/plan");
  checked(with_plan({"model.width=4", "data.batch_size=2"}));  // prices are stale, types hold
  CHECK_THAT(user_error_of([&] { checked(with_plan({"model.width=8"})); }),
             Contains("for a model with the same ops but other layers or rules"));
  CHECK_THAT(user_error_of([&] { checked(with_plan({"model.name=resnet32"})); }),
             Contains("differ); make it again: tandem plan CONFIG"));
  config::Loaded whole = own;
  whole.config.precision.level = "O2";
  CHECK_THAT(user_error_of([&] { train::precision_of(whole.config); }),
             Contains("a plan sets the dtypes of every op"));
  config::Loaded missing = own;
  missing.config.precision.plan = (directory.path() / "none.json").string();
  CHECK_THAT(user_error_of([&] { checked(missing); }), Contains("none.json"));
  missing.config.precision.plan = "auto";
  CHECK_THAT(user_error_of([&] { checked(missing); }), Contains("auto works only in `tandem train`"));
  missing.plan = amp::plan::plan_text({steps.plan});
  checked(missing);
}
