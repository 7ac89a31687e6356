#include "amp/plan/plan_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/error.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "files/json_text.h"

namespace tandem::amp::plan {

namespace {

using Json = nlohmann::ordered_json;

constexpr files::JsonLimits kPlanLimits{.depth = 8, .keys = 10'000, .items = 1'000'000};
constexpr std::int64_t kLongest = std::int64_t{1} << 53;  // ns and counts: exact in every reader of JSON
constexpr std::size_t kShown = 60;                        // bytes of a value in a message

// A value of the file with its place, e.g. "ops[3].ns".
class Place {
 public:
  Place(const std::string& file, const Json& json, std::string path = "")
      : file_(file), json_(json), path_(std::move(path)) {}

  [[noreturn]] void expect(const std::string& what) const {
    throw UserError(file_, fmt::format("{} must be {}, is {}", path_.empty() ? "a plan" : path_, what,
                                       shortened(printable(files::json_text(json_)), kShown)));
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(file_, fmt::format("{}{}{}", path_, path_.empty() ? "" : ": ", what));
  }

  // An object with these keys; only the last `optional` may be missing.
  void require_keys(const std::vector<std::string>& keys, std::size_t optional = 0) const {
    if (!json_.is_object()) expect("an object");
    for (const auto& [key, value] : json_.items())
      if (std::ranges::find(keys, key) == keys.end())
        fail(fmt::format("unknown key \"{}\"{}", shortened(printable(key), kShown), did_you_mean(key, keys)));
    for (std::size_t i = 0; i + optional < keys.size(); ++i)
      if (!json_.contains(keys[i])) fail(fmt::format("needs a key \"{}\"", keys[i]));
  }
  bool has(const char* key) const { return json_.contains(key); }
  Place operator[](const char* key) const {
    return {file_, json_.at(key), path_.empty() ? key : path_ + "." + key};
  }
  std::vector<Place> items() const {
    if (!json_.is_array()) expect("a list");
    std::vector<Place> places;
    for (std::size_t i = 0; i < json_.size(); ++i)
      places.emplace_back(file_, json_[i], fmt::format("{}[{}]", path_, i));
    return places;
  }
  std::vector<std::pair<std::string, Place>> members() const {
    if (!json_.is_object()) expect("an object");
    std::vector<std::pair<std::string, Place>> places;
    for (const auto& [key, value] : json_.items())
      places.emplace_back(key, Place(file_, value, path_ + "." + printable(key)));
    return places;
  }

  std::string text() const {
    if (!json_.is_string()) expect("a text");
    return json_.get<std::string>();
  }
  bool boolean() const {
    if (!json_.is_boolean()) expect("true or false");
    return json_.get<bool>();
  }
  std::int64_t integer(std::int64_t least, std::int64_t most) const {
    const bool fits =
        json_.is_number_integer() &&
        !(json_.is_number_unsigned() && json_.get<std::uint64_t>() > static_cast<std::uint64_t>(kLongest));
    if (!fits || json_.get<std::int64_t>() < least || json_.get<std::int64_t>() > most)
      expect(fmt::format("an integer from {} to {}", least, most));
    return json_.get<std::int64_t>();
  }
  std::int64_t count() const { return integer(0, kLongest); }
  double number() const {
    if (!json_.is_number() || !(json_.get<double>() >= 0.0) || !std::isfinite(json_.get<double>()))
      expect("a number of 0 or more");
    return json_.get<double>();
  }
  // f32, or `low`.
  DType type(DType low) const {
    const std::string name = json_.is_string() ? json_.get<std::string>() : "";
    if (name == name_of(DType::f32)) return DType::f32;
    if (name != name_of(low)) expect(fmt::format("\"f32\" or \"{}\", the plan's 16-bit type", name_of(low)));
    return low;
  }
  template <class Names>
  std::string one_of(const Names& names) const {
    const std::string name = json_.is_string() ? json_.get<std::string>() : "";
    if (std::ranges::find(names, name) == std::end(names))
      expect(fmt::format("one of {}", fmt::join(names, ", ")));
    return name;
  }

 private:
  const std::string& file_;
  const Json& json_;
  std::string path_;
};

OpKey read_key(const Place& place) {
  const std::vector<Place> items = place.items();
  if (items.size() != 3) place.expect("[path, op, call]");
  return {items[0].text(), items[1].text(), static_cast<int>(items[2].integer(0, 1'000'000'000))};
}

PrecisionPlan::Machine read_machine(const Place& place) {
  place.require_keys({"device", "libraries", "bytes_per_second", "launch_ns", "flops"});
  PrecisionPlan::Machine machine{.device = place["device"].text(),
                                 .bytes_per_second = place["bytes_per_second"].number(),
                                 .launch_ns = place["launch_ns"].count()};
  for (const auto& [name, version] : place["libraries"].members()) machine.libraries[name] = version.text();
  for (const auto& [type, rate] : place["flops"].members()) machine.flops[type] = rate.number();
  return machine;
}

PrecisionPlan::Policy read_policy(const Place& place, DType low) {
  place.require_keys({"name", "rounding", "must", "lambda", "dead_band_ns"});
  PrecisionPlan::Policy policy{.name = place["name"].one_of(kPolicies)};
  const bool strict = place["rounding"].one_of(std::vector<std::string>{"strict", "free"}) == "strict";
  policy.rounding = strict ? Rounding::strict : Rounding::free;
  for (const auto& [match, type] : place["must"].members()) policy.must.emplace_back(match, type.type(low));
  policy.lambda = place["lambda"].number();
  policy.dead_band_ns = place["dead_band_ns"].count();
  return policy;
}

PrecisionPlan::Scale read_scale(const Place& place) {
  constexpr int kMostExponent = PrecisionPlan::kMostExponent;
  place.require_keys({"start", "window"});
  const std::vector<Place> ends = place["window"].items();
  if (ends.size() != 2) place["window"].expect("[lowest, highest]");
  const std::int64_t low = ends[0].integer(-kMostExponent, kMostExponent);
  return {.start = static_cast<int>(place["start"].integer(-kMostExponent, kMostExponent)),
          .window = {static_cast<int>(low), static_cast<int>(ends[1].integer(low, kMostExponent))}};
}

PrecisionPlan::PlannedOp read_op(const Place& place, DType low) {
  place.require_keys({"key", "out", "why", "ns", "operands"}, 1);
  PrecisionPlan::PlannedOp op{.key = read_key(place["key"]), .out = place["out"].type(low)};
  if (op.key.op.empty()) place["key"].expect("[path, op, call] with the name of an op");
  if (place.has("operands")) op.operands = place["operands"].type(low);
  const std::optional<Why> why = why_from_name(place["why"].text());
  if (!why) place["why"].expect("one of gain, loss, rule, must, strict, round-early, accuracy, tie");
  op.why = *why;
  const std::string lower(name_of(low));
  const Place ns = place["ns"];
  ns.require_keys({"f32", lower, "from"});
  op.ns = {ns["f32"].count(), ns[lower.c_str()].count()};
  op.measured = ns["from"].one_of(std::vector<std::string>{"measured", "estimated"}) == "measured";
  return op;
}

PrecisionPlan::Cast read_cast(const Place& place, DType low) {
  place.require_keys({"of", "output", "to", "consumers", "ns", "how"});
  const std::optional<How> how = how_from_name(place["how"].text());
  if (!how) place["how"].expect("one of kernel, store, load, copy, once");
  return {.of = read_key(place["of"]),
          .output = static_cast<int>(place["output"].integer(0, 1'000'000)),
          .to = place["to"].type(low),
          .consumers = static_cast<int>(place["consumers"].integer(0, 1'000'000'000)),
          .ns = place["ns"].count(),
          .how = *how};
}

ArmTimes read_arms(const Place& place) {
  place.require_keys({"f32", "rules", "low", "plan"}, 4);
  const auto time = [&](const char* arm) -> std::optional<std::int64_t> {
    if (!place.has(arm)) return std::nullopt;
    return place[arm].count();
  };
  return {time("f32"), time("rules"), time("low"), time("plan")};
}

void read_version(const Place& place) {
  if (!place.has("tandem_plan")) place.fail("is not a plan: it has no key \"tandem_plan\"");
  if (place["tandem_plan"].count() != PrecisionPlan::kVersion)
    place["tandem_plan"].fail(
        fmt::format("version {} is unknown, expected {}; make it again: tandem plan CONFIG",
                    place["tandem_plan"].count(), PrecisionPlan::kVersion));
}

// Checks that ops are unique, and that casts refer to them or to inputs of the step.
void check_keys(const PrecisionPlan& plan, const Place& place) {
  std::set<std::tuple<std::string, std::string, int>> keys;
  for (const auto& op : plan.ops)
    if (!keys.emplace(op.key.path, op.key.op, op.key.call).second)
      place["ops"].fail(fmt::format("{} occurs twice", printable(to_string(op.key))));
  for (const auto& cast : plan.casts)
    if (!cast.of.op.empty() && !keys.contains({cast.of.path, cast.of.op, cast.of.call}))
      place["casts"].fail(fmt::format("{} is not among the ops", printable(to_string(cast.of))));
  if (plan.model.ops != static_cast<std::int64_t>(plan.ops.size()))
    place["model"]["ops"].fail(fmt::format("is {}, and the plan has {}", plan.model.ops, plan.ops.size()));
}

// The part shared by all phases of a step.
PrecisionPlan read_shared(const Place& place) {
  PrecisionPlan plan;
  const std::string low = place["dtype"].one_of(std::vector<std::string>{"f16", "bf16"});
  plan.dtype = low == "f16" ? DType::f16 : DType::bf16;
  plan.share = place["share"].boolean();
  plan.machine = read_machine(place["machine"]);
  plan.policy = read_policy(place["policy"], plan.dtype);
  if (place.has("scale")) plan.scale = read_scale(place["scale"]);
  return plan;
}

// The part of each phase.
PrecisionPlan read_phase(const Place& place, PrecisionPlan plan) {
  place["model"].require_keys({"digest", "ops", "phase"});
  plan.model = {place["model"]["digest"].text(), place["model"]["ops"].count(),
                place["model"]["phase"].text()};
  place["shapes"].require_keys({"digest", "batch"});
  plan.shapes = {place["shapes"]["digest"].text(), place["shapes"]["batch"].count()};
  for (const Place& op : place["ops"].items()) plan.ops.push_back(read_op(op, plan.dtype));
  for (const Place& cast : place["casts"].items()) plan.casts.push_back(read_cast(cast, plan.dtype));
  plan.predicted = read_arms(place["predicted_ns"]);
  plan.measured = read_arms(place["measured_ns"]);
  check_keys(plan, place);
  return plan;
}

PhasePlans read_phases(const Place& place) {
  place.require_keys({"tandem_plan", "dtype", "share", "machine", "policy", "phases", "scale"}, 1);
  const PrecisionPlan shared = read_shared(place);
  PhasePlans phases;
  for (const Place& phase : place["phases"].items()) {
    phase.require_keys({"model", "shapes", "ops", "casts", "predicted_ns", "measured_ns"});
    phases.push_back(read_phase(phase, shared));
    const std::string& name = phases.back().model.phase;
    if (std::ranges::count(phases, name, [](const auto& plan) { return plan.model.phase; }) > 1)
      phase["model"]["phase"].fail(fmt::format("{} occurs twice", shortened(printable(name), kShown)));
  }
  if (phases.size() < 2)
    place["phases"].fail(fmt::format(
        "has {}, expected at least two: a single phase is written without \"phases\"", phases.size()));
  return phases;
}

Json to_json(const OpKey& key) { return Json::array({key.path, key.op, key.call}); }

Json to_json(const PrecisionPlan::PlannedOp& op, DType low) {
  Json json{{"key", to_json(op.key)}};
  if (op.operands) json["operands"] = name_of(*op.operands);
  json["out"] = name_of(op.out);
  json["why"] = name_of(op.why);
  json["ns"] = {{"f32", op.ns.f32},
                {std::string(name_of(low)), op.ns.low},
                {"from", op.measured ? "measured" : "estimated"}};
  return json;
}

Json to_json(const PrecisionPlan::Cast& cast) {
  return {{"of", to_json(cast.of)},      {"output", cast.output}, {"to", name_of(cast.to)},
          {"consumers", cast.consumers}, {"ns", cast.ns},         {"how", name_of(cast.how)}};
}

Json to_json(const ArmTimes& times) {
  Json json = Json::object();
  if (times.f32) json["f32"] = *times.f32;
  if (times.rules) json["rules"] = *times.rules;
  if (times.low) json["low"] = *times.low;
  if (times.plan) json["plan"] = *times.plan;
  return json;
}

Json to_json(const PrecisionPlan::Policy& policy) {
  Json must = Json::object();
  for (const auto& [match, type] : policy.must) must[match] = name_of(type);
  return {{"name", policy.name},
          {"rounding", policy.rounding == Rounding::strict ? "strict" : "free"},
          {"must", must},
          {"lambda", policy.lambda},
          {"dead_band_ns", policy.dead_band_ns}};
}

Json to_json(const PrecisionPlan::Scale& scale) { return {{"start", scale.start}, {"window", scale.window}}; }

Json to_json(const PrecisionPlan::Machine& machine) {
  return {{"device", machine.device},
          {"libraries", machine.libraries},
          {"bytes_per_second", machine.bytes_per_second},
          {"launch_ns", machine.launch_ns},
          {"flops", machine.flops}};
}

// A list with one item per line.
template <class Items, class ToJson>
std::string lines_of(const char* name, const Items& items, ToJson&& to_json_of) {
  std::string text = fmt::format(" \"{}\": [", name);
  for (std::size_t i = 0; i < items.size(); ++i)
    text += fmt::format("{}\n  {}", i == 0 ? "" : ",", files::json_text(to_json_of(items[i])));
  return text + "],\n";
}

std::string line_of(const char* key, const Json& json) {
  return fmt::format(" \"{}\": {},\n", key, files::json_text(json));
}

std::string head_of(const PrecisionPlan& plan) {
  const Json model{{"digest", plan.model.digest}, {"ops", plan.model.ops}, {"phase", plan.model.phase}};
  return line_of("model", model) +
         line_of("shapes", {{"digest", plan.shapes.digest}, {"batch", plan.shapes.batch}});
}

std::string shared_text(const PrecisionPlan& plan) {
  return line_of("dtype", name_of(plan.dtype)) + line_of("share", plan.share) +
         line_of("machine", to_json(plan.machine)) + line_of("policy", to_json(plan.policy)) +
         (plan.scale ? line_of("scale", to_json(*plan.scale)) : "");
}

std::string body_of(const PrecisionPlan& plan) {
  return lines_of("ops", plan.ops, [&](const auto& op) { return to_json(op, plan.dtype); }) +
         lines_of("casts", plan.casts, [](const auto& cast) { return to_json(cast); }) +
         line_of("predicted_ns", to_json(plan.predicted)) +
         fmt::format(" \"measured_ns\": {}", files::json_text(to_json(plan.measured)));
}

}  // namespace

PhasePlans parse_plan(const std::string& text, const std::string& file) {
  const Json json = files::parse_json<Json>(text, file, "the plan", kPlanLimits);
  const Place place(file, json);
  if (!json.is_object()) place.expect("an object");
  read_version(place);
  if (place.has("phases")) return read_phases(place);
  place.require_keys({"tandem_plan", "model", "shapes", "dtype", "share", "machine", "policy", "ops", "casts",
                      "predicted_ns", "measured_ns", "scale"},
                     1);
  return {read_phase(place, read_shared(place))};
}

std::string plan_text(const PhasePlans& phases) {
  ensure(!phases.empty(), "plan", "a plan has no phase");
  const PrecisionPlan& first = phases.front();
  for (const PrecisionPlan& plan : phases)
    ensure(plan.dtype == first.dtype && plan.share == first.share && plan.machine == first.machine &&
               plan.policy == first.policy && plan.scale == first.scale,
           "plan", "{} and {} differ in what phases share", first.model.phase, plan.model.phase);
  std::string text = fmt::format("{{\"tandem_plan\": {},\n", PrecisionPlan::kVersion);
  if (phases.size() == 1) return text + head_of(first) + shared_text(first) + body_of(first) + "}\n";
  text += shared_text(first) + " \"phases\": [";
  for (const PrecisionPlan& plan : phases)
    text += fmt::format("{}\n {{\n{}{}}}", &plan == &first ? "" : ",", head_of(plan), body_of(plan));
  return text + "]}\n";
}

}  // namespace tandem::amp::plan
