// Plan files: round trips, invalid files, and plans of another model.
#include "amp/plan/plan_file.h"

#include <catch2/catch.hpp>

#include "amp/plan/cut.h"
#include "core/error.h"
#include "tests/amp/plan/graphs.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::amp::plan;
using namespace tandem::test;

namespace {

PrecisionPlan block_plan() {
  const GraphMaker g = block();
  const Assignment types = cut(g.graph);
  std::vector<bool> measured(g.graph.ops.size());
  measured[static_cast<std::size_t>(g.at("q"))] = true;
  PrecisionPlan plan = plan_of(g.graph, types, reasons(g.graph, types, {}), DType::bf16, true, measured);
  plan.model.digest = model_digest(g.graph, {"block|Block()|[3,4]"});
  plan.shapes = {shapes_digest(g.graph), 32};
  plan.machine = {.device = "a \"CPU\"",
                  .libraries = {{"oneDNN", "3.2"}},
                  .bytes_per_second = 1e12,
                  .launch_ns = 5000,
                  .flops = {{"f32", 4e11}, {"bf16", 5e12}}};
  plan.policy = {.name = "cut",
                 .must = {{"^zz", DType::f32}, {"^a$", DType::bf16}},
                 .lambda = 0.25,
                 .dead_band_ns = 200};
  plan.scale = PrecisionPlan::Scale{.start = 13, .window = {9, 15}};
  plan.measured = {.f32 = 200'000, .plan = 120'000};
  return plan;
}

// Two phases, the second with fewer ops.
PhasePlans two_phases() {
  PhasePlans phases(2, block_plan());
  phases[0].model.phase = "discriminator";
  phases[1].model.phase = "generator";
  phases[1].casts.clear();
  phases[1].ops.resize(3);
  phases[1].model.ops = 3;
  phases[1].measured = {};
  return phases;
}

// The text with one passage replaced, the last of its kind where there are several.
std::string changed(const PhasePlans& phases, const std::string& from, const std::string& to) {
  std::string text = plan_text(phases);
  const std::size_t place = text.rfind(from);
  REQUIRE(place != std::string::npos);
  return text.replace(place, from.size(), to);
}

// The text with one passage replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = plan_text({block_plan()});
  const std::size_t place = text.find(from);
  REQUIRE(place != std::string::npos);
  return text.replace(place, from.size(), to);
}

void check_refused(const std::string& from, const std::string& to, const std::string& message) {
  CAPTURE(from, to);
  CHECK_FAILS(UserError, parse_plan(changed(from, to), "plan.json"), message);
}

std::vector<OpKey> block_keys() { return keys_of(block().graph); }

}  // namespace

TEST_CASE("a plan is read as it was written", "[plan][file]") {
  const PrecisionPlan plan = block_plan();
  const std::string text = plan_text({plan});
  CHECK(parse_plan(text, "plan.json") == PhasePlans{plan});
  CHECK(plan_text(parse_plan(text, "plan.json")) == text);
  PrecisionPlan small;
  small.dtype = DType::f16;
  small.share = false;
  small.policy.name = "search";
  small.policy.rounding = Rounding::free;
  CHECK(parse_plan(plan_text({small}), "plan.json") == PhasePlans{small});
}

TEST_CASE("a plan says what was decided, and each cast", "[plan][file]") {
  const std::string text = plan_text({block_plan()});
  const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
  CHECK(text.starts_with("{\"tandem_plan\": 1,\n \"model\": {\"digest\":\"sha256:"));
  CHECK(
      has("{\"key\":[\"q\",\"linear\",0],\"operands\":\"bf16\",\"out\":\"bf16\",\"why\":\"gain\",\"ns\":{"
          "\"f32\":40000,"
          "\"bf16\":12000,\"from\":\"measured\"}}"));
  CHECK(has("{\"key\":[\"sm\",\"softmax\",0],\"out\":\"f32\",\"why\":\"rule\","));
  CHECK(
      has("{\"of\":[\"sm\",\"softmax\",0],\"output\":0,\"to\":\"bf16\",\"consumers\":1,\"ns\":22000,\"how\":"
          "\"kernel\"}"));
  CHECK(
      has("{\"of\":[\"l\",\"layer_norm\",0],\"output\":0,\"to\":\"bf16\",\"consumers\":2,\"ns\":0,\"how\":"
          "\"store\"}"));
  CHECK(has(
      "{\"of\":[\"wq\",\"\",0],\"output\":0,\"to\":\"bf16\",\"consumers\":1,\"ns\":500,\"how\":\"copy\"}"));
  CHECK(has("\"predicted_ns\": {\"f32\":194000,\"rules\":173500,\"low\":121500,\"plan\":113000}"));
  CHECK(has("\"must\":{\"^zz\":\"f32\",\"^a$\":\"bf16\"}"));  // in order: the later counts
  CHECK(block_plan().model.ops == 11);                        // parameters are none
}

TEST_CASE("a plan gives back its assignment", "[plan][file]") {
  const GraphMaker g = block();
  CHECK(assignment_of(block_plan(), g.graph, "plan.json") == cut(g.graph));
  PrecisionPlan plan = block_plan();
  plan.ops[0].operands = DType::f32;
  CHECK_FAILS(UserError, assignment_of(plan, g.graph, "plan.json"),
              "e embedding has operands in plan.json, but is not a product");
  GraphMaker view = block();
  view.op("flat", "reshape", CastRule::neutral, {"h"}).view = true;
  const Assignment types = cut(view.graph);
  plan = plan_of(view.graph, types, reasons(view.graph, types, {}), DType::bf16, true,
                 std::vector<bool>(types.size()));
  CHECK(assignment_of(plan, view.graph, "plan.json") == types);
  plan.ops.back().out = DType::bf16;
  CHECK_FAILS(UserError, assignment_of(plan, view.graph, "plan.json"),
              "flat reshape is a view of h linear and has another type");
}

TEST_CASE("invalid plans are refused with their place", "[plan][file]") {
  CHECK_FAILS(UserError, parse_plan("", "plan.json"), "[plan.json] the plan is not JSON");
  CHECK_FAILS(UserError, parse_plan("[]", "plan.json"), "[plan.json] a plan must be an object, is []");
  CHECK_FAILS(UserError, parse_plan("{}", "plan.json"),
              "[plan.json] is not a plan: it has no key \"tandem_plan\"");
  check_refused("\"tandem_plan\": 1", "\"tandem_plan\": 2",
                "tandem_plan: version 2 is unknown, expected 1; make it again: tandem plan CONFIG");
  check_refused("\"share\": true", "\"shore\": true", "unknown key \"shore\"; did you mean \"share\"?");
  check_refused("\"share\": true", "\"dtype\": \"bf16\"", "stands twice");
  check_refused(" \"share\": true,\n", "", "[plan.json] needs a key \"share\"");
  check_refused("\"share\": true", "\"share\": 1", "share must be true or false, is 1");
  check_refused("\"dtype\": \"bf16\"", "\"dtype\": \"f8\"", "dtype must be one of f16, bf16, is \"f8\"");
  check_refused("\"dtype\": \"bf16\"", "\"dtype\": \"f16\"",
                "must be \"f32\" or \"f16\", the plan's 16-bit type, is \"bf16\"");
  check_refused("\"out\":\"f32\"", "\"out\":\"f64\"",
                "ops[0].out must be \"f32\" or \"bf16\", the plan's 16-bit type, is \"f64\"");
  check_refused("\"why\":\"gain\"", "\"why\":\"fun\"", "ops[2].why must be one of gain, loss, rule");
  check_refused("\"f32\":40000,", "\"f32\":-1,",
                "ops[2].ns.f32 must be an integer from 0 to 9007199254740992, is -1");
  check_refused("\"f32\":40000,", "\"f32\":1.5,", "ops[2].ns.f32 must be an integer");
  check_refused("\"f32\":40000,", "\"f32\":18446744073709551615,", "ops[2].ns.f32 must be an integer");
  check_refused("\"from\":\"measured\"", "\"from\":\"guessed\"",
                "ops[2].ns.from must be one of measured, estimated");
  check_refused("[\"q\",\"linear\",0],\"operands\"", "[\"q\",\"linear\"],\"operands\"",
                "ops[2].key must be [path, op, call]");
  check_refused("[\"q\",\"linear\",0],\"operands\"", "[\"v\",\"linear\",0],\"operands\"",
                "ops: v linear occurs twice");
  check_refused("[\"q\",\"linear\",0],\"operands\"", "[\"q\",\"\",0],\"operands\"", "with the name of an op");
  check_refused("{\"of\":[\"sm\",\"softmax\",0]", "{\"of\":[\"sn\",\"softmax\",0]",
                "casts: sn softmax is not among the ops");
  check_refused("\"how\":\"kernel\"", "\"how\":\"magic\"",
                "how must be one of kernel, store, load, copy, once, is \"magic\"");
  check_refused("\"ops\":11", "\"ops\":12", "model.ops: is 12, and the plan has 11");
  check_refused("\"name\":\"cut\"", "\"name\":\"cat\"",
                "policy.name must be one of rules, colours, growth, cut, search, is \"cat\"");
  check_refused("\"rounding\":\"strict\"", "\"rounding\":\"loose\"",
                "policy.rounding must be one of strict, free");
  check_refused("\"lambda\":0.25", "\"lambda\":-0.25", "policy.lambda must be a number of 0 or more");
  check_refused("\"window\":[9,15]", "\"window\":[15,9]",
                "scale.window[1] must be an integer from 15 to 127, is 9");
  check_refused("\"window\":[9,15]", "\"window\":[9]", "scale.window must be [lowest, highest]");
  check_refused("\"libraries\":{", "\"libraries\":{\"x\":1,", "machine.libraries.x must be a text, is 1");
}

TEST_CASE("a plan of several phases has what they share once", "[plan][file]") {
  const PhasePlans phases = two_phases();
  const std::string text = plan_text(phases);
  CHECK(parse_plan(text, "plan.json") == phases);
  CHECK(plan_text(parse_plan(text, "plan.json")) == text);
  CHECK(text.starts_with("{\"tandem_plan\": 1,\n \"dtype\": \"bf16\",\n \"share\": true,\n"));
  CHECK(text.find("\"machine\"") == text.rfind("\"machine\""));
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& message) {
    CAPTURE(from, to);
    CHECK_FAILS(UserError, parse_plan(changed(phases, from, to), "plan.json"), message);
  };
  refused("\"phase\":\"generator\"", "\"phase\":\"discriminator\"",
          "phases[1].model.phase: discriminator occurs twice");
  refused("\"ops\":3", "\"ops\":4", "phases[1].model.ops: is 4, and the plan has 3");
  refused("\"why\":\"gain\"", "\"why\":\"fun\"", "phases[1].ops[2].why must be one of gain");
  refused(" \"casts\": [", " \"share\": true,\n \"casts\": [", "phases[1]: unknown key \"share\"");
  refused(" \"phases\": [", " \"shapes\": [], \"phases\": [", "unknown key \"shapes\"");
  std::string one = plan_text({phases[0]});
  CHECK_FAILS(UserError, parse_plan("{\"tandem_plan\": 1, \"phases\": []}", "plan.json"), "needs a key");
  one = text;
  one.erase(one.rfind(",\n {\n \"model\""));
  CHECK_FAILS(UserError, parse_plan(one + "]}", "plan.json"), "phases: has 1, expected at least two");
  PhasePlans differing = phases;
  differing[1].share = false;
  CHECK_FAILS(InternalError, plan_text(differing), "differ in what phases share");
  CHECK_FAILS(UserError, require_match(phases[1], block_keys(), "plan.json"),
              "op 3 of the generator is not in plan.json, v linear in this model (8 differ)");
}

TEST_CASE("mutated plans are read, or refused as a user's", "[plan][file]") {
  const PhasePlans plans = GENERATE(PhasePlans{block_plan()}, two_phases());
  const std::string text = plan_text(plans);
  const std::string alphabet = "{}[]\",:0129-.etrufalsn \\\n\x01\xff";
  Dice dice(40);
  int refused = 0, other = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    std::string mutated = text;
    for (int n = 1 + dice.below(3); n > 0; --n) {
      const auto place = static_cast<std::size_t>(dice.below(static_cast<int>(mutated.size())));
      const char letter = alphabet[static_cast<std::size_t>(dice.below(static_cast<int>(alphabet.size())))];
      switch (dice.below(4)) {
        case 0:
          mutated.erase(place, 1 + static_cast<std::size_t>(dice.below(40)));
          break;
        case 1:
          mutated.insert(place, 1, letter);
          break;
        case 2:
          mutated[place] = letter;
          break;
        default:
          mutated.resize(place);
          break;
      }
      if (mutated.empty()) mutated = "0";
    }
    try {
      const PhasePlans read = parse_plan(mutated, "plan.json");
      CHECK(parse_plan(plan_text(read), "plan.json") == read);
      require_match(read.front(), block_keys(), "plan.json");
    } catch (const UserError& error) {
      ++refused;
      const std::string what = error.what();
      if (!what.starts_with("[plan")) ++other;
      CHECK(what.find('\n') == std::string::npos);
    }
  }
  CHECK(refused > 800);
  CHECK(other == 0);
}

TEST_CASE("a plan of another model is refused by the first op", "[plan][file]") {
  const PrecisionPlan plan = block_plan();
  CHECK_NOTHROW(require_match(plan, block_keys(), "plan.json"));
  std::vector<OpKey> model = block_keys();
  model[3].path = "value";
  model[5].call = 1;
  CHECK_FAILS(UserError, require_match(plan, model, "plan.json"),
              "[plan] op 3 is v linear in plan.json, value linear in this model (2 differ); make it again: "
              "tandem plan CONFIG");
  model = block_keys();
  model.pop_back();
  CHECK_FAILS(UserError, require_match(plan, model, "plan.json"),
              "op 10 is loss mse_loss in plan.json, not in this model (1 differ)");
  model = block_keys();
  model.push_back({"loss", "mean", 1});
  CHECK_FAILS(UserError, require_match(plan, model, "plan.json"),
              "op 11 is not in plan.json, loss mean #1 in this model (1 differ)");
  model = block_keys();
  std::swap(model[0], model[1]);
  CHECK_FAILS(UserError, require_match(plan, model, "plan.json"),
              "op 0 is e embedding in plan.json, l layer_norm in this model (2 differ)");
  model.clear();
  CHECK_FAILS(UserError, require_match(plan, model, "plan.json"), "(11 differ)");
}

TEST_CASE("digests tell models and shapes apart", "[plan][file]") {
  const GraphMaker g = block();
  const std::string digest = model_digest(g.graph, {"a|A()|[1]"});
  CHECK(digest == model_digest(block().graph, {"a|A()|[1]"}));
  CHECK(digest.size() == std::string("sha256:").size() + 64);
  CHECK(digest != model_digest(g.graph, {"a|A()|[2]"}));
  CHECK(digest != model_digest(g.graph, {}));
  GraphMaker other = block();
  std::swap(other["a"].reads[0], other["a"].reads[1]);
  CHECK(digest != model_digest(other.graph, {"a|A()|[1]"}));
  other = block();
  other["sm"].rule = CastRule::neutral;
  CHECK(digest != model_digest(other.graph, {"a|A()|[1]"}));
  other = block();
  other["q"].ns.low = 1;  // a price is no model
  other["q"].results[0].elements = 7;
  CHECK(digest == model_digest(other.graph, {"a|A()|[1]"}));
  CHECK(shapes_digest(g.graph) != shapes_digest(other.graph));
  other["q"].results[0].elements = g.graph.at(g.at("q")).results[0].elements;
  CHECK(shapes_digest(g.graph) == shapes_digest(other.graph));
}

TEST_CASE("differences of two plans", "[plan][file]") {
  const PrecisionPlan first = block_plan();
  CHECK(differences(first, first).empty());
  PrecisionPlan second = first;
  second.ops[2].ns.f32 = 44'000;  // a tenth is not more than a tenth
  CHECK(differences(first, second).empty());
  second.ops[2].ns = {44'001, 10'000};
  std::vector<PlanChange> changes = differences(first, second);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].text == "q linear: f32 40000 → 44001 ns, bf16 12000 → 10000 ns");
  CHECK(same_types(changes));
  second.ops[3].operands = DType::f32;
  second.ops[3].why = Why::accuracy;
  second.ops[4].key.path = "scaled";
  changes = differences(first, second);
  REQUIRE(changes.size() == 4);
  CHECK(changes[1].text == "v linear: bf16 in bf16 → bf16 in f32 (gain → accuracy)");
  CHECK(changes[2].text == "s mul_scalar: only in the first plan, bf16");
  CHECK(changes[3] == PlanChange{PlanChange::Kind::only_second,
                                 {"scaled", "mul_scalar", 0},
                                 "scaled mul_scalar: only in the second plan, bf16"});
  CHECK_FALSE(same_types(changes));
  second = first;
  second.scale->start = 12;
  changes = differences(PhasePlans{first}, PhasePlans{second});
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].text == "loss scale: 2^13 (window 2^9 to 2^15) → 2^12 (window 2^9 to 2^15)");
  CHECK(same_types(changes));
  second.scale.reset();
  CHECK(differences(PhasePlans{second}, PhasePlans{first}).front().text ==
        "loss scale: none → 2^13 (window 2^9 to 2^15)");
}

TEST_CASE("differences of plans of several phases", "[plan][file]") {
  const PhasePlans first = two_phases();
  CHECK(differences(first, first).empty());
  PhasePlans second = first;
  second[1].ops[2].operands = DType::f32;
  std::vector<PlanChange> changes = differences(first, second);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].text == "generator: q linear: bf16 in bf16 → bf16 in f32 (gain → gain)");
  // Phases go by their names, and one that is in one plan only is so with its ops.
  std::swap(second[0], second[1]);
  CHECK(differences(first, second).size() == 1);
  second.erase(second.begin());
  changes = differences(first, second);
  REQUIRE(changes.size() == 3);
  CHECK(changes[0].text.starts_with("generator: e embedding: only in the first plan"));
  CHECK(differences(second, first)[0].kind == PlanChange::Kind::only_second);
  // Of one phase each: whatever they are called.
  CHECK(differences(PhasePlans{first[0]}, PhasePlans{block_plan()}).empty());
}
