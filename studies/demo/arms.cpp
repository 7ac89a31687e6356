#include "studies/demo/arms.h"

#include <fmt/core.h>

#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "report/table.h"
#include "samples/package_descriptions.h"

namespace tandem::demo {

std::string text_path(const Session& session, const std::string& demo) {
  const std::string given = session.options().text;
  const std::string path = given.empty() ? datasets::fetched_package_descriptions().string() : given;
  require(std::filesystem::exists(path), "",
          "demo {}: {} is missing; `./run data` fetches it, or give another text with --text", demo, path);
  return path;
}

void ArmResult::log(std::int64_t step, std::int64_t steps, const Tensor& loss, Session& session) {
  if (step % 5 != 0) return;
  curve.x.push_back(static_cast<double>(step));
  curve.y.push_back(std::exp(std::min(loss.item(), 20.0)));
  if (step % 50 == 0)
    session.progress(fmt::format("{}: step {} of {}, loss {:.3f}", curve.name, step, steps, loss.item()));
}

std::vector<Arm> scaling_arms(double constant) {
  amp::Precision unscaled = amp::Precision::amp_fp16(), fixed = unscaled;
  unscaled.scaler = optim::ScalerOptions::none();
  fixed.scaler = optim::ScalerOptions::fixed(constant);
  return {{"FP32", amp::Precision::fp32()},
          {"FP16, no loss scale", unscaled},
          {fmt::format("FP16, scale {:.0f}", constant), fixed},
          {"FP16, dynamic scale", amp::Precision::amp_fp16()}};
}

Json show_arms(Session& session, const std::string& title, std::span<const Arm> arms,
               std::span<const ArmResult> results) {
  report::Table table({"arm", "validation perplexity", "skipped steps"});
  plot::LineChart chart{
      .title = title, .x = {.title = "step"}, .y = {.title = "training perplexity", .log2 = true}};
  Json rows = Json::array();
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const ArmResult& result = results[i];
    table.add({arms[i].name, fmt::format("{:.1f}", result.perplexity), fmt::format("{}", result.skipped)});
    rows.push_back({{"arm", arms[i].name}, {"perplexity", result.perplexity}, {"skipped", result.skipped}});
    chart.lines.push_back(result.curve);
  }
  table.print();
  session.chart("perplexity", plot::to_svg(chart));
  return rows;
}

}  // namespace tandem::demo
