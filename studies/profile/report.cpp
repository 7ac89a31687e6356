// Output of a Profile as JSON and as tables.
#include <fmt/core.h>

#include "core/text_width.h"
#include "files/output.h"
#include "report/table.h"
#include "studies/profile/profile.h"

namespace tandem::profile {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kSlowest = 10;  // rows of the table

const char* name_of(Direction direction) {
  static constexpr const char* kNames[] = {"forward", "backward", "update"};
  return kNames[static_cast<int>(direction)];
}

double share(const Cost& cost, const Profile& profile) {
  return profile.step_seconds > 0.0 ? cost.seconds / profile.step_seconds : 0.0;
}

void add_cost(Json& json, const Cost& cost, const Profile& profile) {
  json["calls"] = cost.calls;
  json["ms"] = 1e3 * cost.seconds;
  json["share_of_step"] = share(cost, profile);
  json["gb_per_s"] = 1e-9 * cost.bytes_per_second();
  json["tflop_per_s"] = 1e-12 * cost.flops();
  json["share_of_roofline"] = cost.roofline();
}

Json op_json(const OpCost& op, const Profile& profile) {
  Json json{{"op", op.op}, {"direction", name_of(op.direction)}, {"shapes", op.shapes}};
  add_cost(json, op.cost, profile);
  if (!op.algorithms.empty()) json["algorithms"] = op.algorithms;
  if (op.parts.empty()) return json;
  json["parts"] = Json::array();
  for (const OpCost& part : op.parts) json["parts"].push_back(op_json(part, profile));
  return json;
}

Json limits_json(const Limits& limits) {
  Json products = Json::object();
  for (const auto& [dtype, flops] : limits.products)
    products[std::string(tandem::name_of(dtype))] = 1e-12 * flops;
  return {{"copy_gb_per_s", 1e-9 * limits.bytes_per_second},
          {"product_tflop_per_s", products},
          {"empty_us", 1e6 * limits.empty_seconds}};
}

// Three digits; "" for zero.
std::string number(double value) { return value > 0.0 ? fmt::format("{:.3g}", value) : ""; }
std::string percent(double share) { return fmt::format("{:.1f}", 100.0 * share); }

std::vector<std::string> figures(const Cost& cost, const Profile& profile) {
  return {fmt::format("{:g}", cost.calls), fmt::format("{:.3f}", 1e3 * cost.seconds),
          percent(share(cost, profile)),   number(1e-9 * cost.bytes_per_second()),
          number(1e-12 * cost.flops()),    cost.bound > 0.0 ? percent(cost.roofline()) : ""};
}

std::vector<std::string> line(std::vector<std::string> labels, const Cost& cost, const Profile& profile) {
  for (std::string& figure : figures(cost, profile)) labels.push_back(std::move(figure));
  return labels;
}

const std::vector<std::string> kFigures = {"calls", "ms", "% of step", "GB/s", "TFLOP/s", "% of roofline"};

report::Table table(std::vector<std::string> header) {
  const std::size_t labels = header.size();
  header.insert(header.end(), kFigures.begin(), kFigures.end());
  report::Table result(std::move(header));
  result.right_from(labels);
  return result;
}

void print_families(const Profile& profile) {
  report::Table families = table({"family", "pass"});
  for (const FamilyCost& family : profile.families) {
    const bool update = family.direction == Direction::update;
    families.add(line({family.family, update ? "" : name_of(family.direction)}, family.cost, profile));
  }
  families.add({"between", "", "", fmt::format("{:.3f}", 1e3 * profile.rest_seconds()),
                percent(profile.rest_seconds() / profile.step_seconds)});
  families.print();
}

// Appends a column with a header to the last cells of `rows`.
void append(std::vector<std::vector<std::string>>& rows, const std::vector<std::string>& texts) {
  std::size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, text_width(text));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].back() += "  " + padded(texts[i], width);
}

// Algorithms, if there are any, and shapes come last, since they may be long.
void print_slowest(const Profile& profile) {
  std::vector<std::vector<std::string>> rows{{"op", "pass"}};
  rows[0].insert(rows[0].end(), kFigures.begin(), kFigures.end());
  std::vector<std::string> shapes{"shapes"}, algorithms{"algorithm"};
  const auto add = [&](const OpCost& op, const std::string& label) {
    const bool update = op.direction == Direction::update;
    rows.push_back(line({label, update ? "" : name_of(op.direction)}, op.cost, profile));
    shapes.push_back(op.shapes);
    algorithms.push_back(op.algorithms);
  };
  for (std::size_t i = 0; i < std::min(kSlowest, profile.slowest.size()); ++i) {
    const OpCost& op = profile.slowest[i];
    add(op, op.op);
    for (const OpCost& part : op.parts) add(part, "  " + part.op);
  }
  const bool any = std::any_of(algorithms.begin() + 1, algorithms.end(),
                               [](const std::string& text) { return !text.empty(); });
  if (any) append(rows, algorithms);
  append(rows, shapes);
  report::Table table(rows[0]);
  table.right_from(2);
  for (std::size_t i = 1; i < rows.size(); ++i) table.add(rows[i]);
  table.print();
}

void print_limits(const Limits& limits) {
  std::string rates;
  for (const auto& [dtype, flops] : limits.products)
    rates += fmt::format("{}{:.3g} TFLOP/s in {}", rates.empty() ? "" : ", ", 1e-12 * flops,
                         tandem::name_of(dtype));
  output::print("measured limits: {:.3g} GB/s for a large copy, {} for square products\n",
                1e-9 * limits.bytes_per_second, rates);
  output::print(
      "% of roofline: the minimum time of an op's bytes or FLOPs at these rates, the longer of the two, "
      "divided by its time; it is above 100 % if\na cache held the data or the algorithm needs fewer FLOPs. "
      "An empty measurement takes {:.2f} us.\n",
      1e6 * limits.empty_seconds);
}

}  // namespace

Json to_json(const Profile& profile) {
  Json stages = Json::object();
  for (std::size_t p = 0; p < train::kStageNames.size(); ++p) {
    if (profile.stage_seconds[p] > 0.0) stages[train::kStageNames[p]] = 1e3 * profile.stage_seconds[p];
  }
  Json families = Json::array(), slowest = Json::array();
  for (const FamilyCost& family : profile.families) {
    Json json{{"family", family.family}, {"direction", name_of(family.direction)}};
    add_cost(json, family.cost, profile);
    families.push_back(std::move(json));
  }
  for (const OpCost& op : profile.slowest) slowest.push_back(op_json(op, profile));
  return {{"steps", profile.steps},
          {"step_ms", 1e3 * profile.step_seconds},
          {"ops_ms", 1e3 * profile.ops.seconds},
          {"between_ms", 1e3 * profile.rest_seconds()},
          {"phases_ms", stages},
          {"families", families},
          {"slowest", slowest},
          {"limits", limits_json(profile.limits)}};
}

void print(const Profile& profile) {
  output::print("\nprofile of {} ordinary steps, {:.2f} ms each\n", profile.steps,
                1e3 * profile.step_seconds);
  print_families(profile);
  output::print("\n");
  print_slowest(profile);
  output::print("\n");
  print_limits(profile.limits);
}

}  // namespace tandem::profile
