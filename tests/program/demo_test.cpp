// tandem demo: the small version of each demonstration shows its effect.
#include <cmath>
#include <fstream>

#include "core/random.h"
#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

json demo(const TemporaryDirectory& directory, const std::string& name,
          const std::vector<std::string>& charts, const std::vector<std::string>& more = {}) {
  const Outcome outcome = must(tandem_in(directory, joined({"demo", name, "--small", "--out=out"}, more)));
  for (const std::string& chart : charts)
    CHECK_THAT(read_text(directory.path() / "out" / (chart + ".svg")), Catch::StartsWith("<svg"));
  const json result = json::parse(read_text(directory.path() / "out" / "demo.json"));
  CHECK_THAT(outcome.out, Contains(result["verdict"].get<std::string>()));
  CHECK(result["shown"] == true);
  return result;
}

double value_of(const json& result, const std::string& arm, const std::string& key) {
  for (const json& row : result["arms"])
    if (row["arm"] == arm) return row[key];
  FAIL(arm);
  return 0.0;
}

// Descriptions whose words are as frequent as words are: the n-th comes in proportion to 1/n.
void write_descriptions(const std::filesystem::path& path) {
  std::ofstream file(path);
  std::uint32_t block = 0;
  for (int document = 0; document < 4000; ++document) {
    file << "Package: p\nSource: s" << document << "\nDescription-en: document " << document << "\n";
    for (int i = 0; i < 5; ++i) {
      file << " ";
      for (const std::uint32_t word : tandem::philox({.seed = 2}, block++))
        file << " w" << static_cast<int>(std::exp(tandem::to_unit_float(word) * std::log(3000.0)));
      file << "\n";
    }
    file << "\n";
  }
}

}  // namespace

TEST_CASE("demo diverge: logit gradients vanish without a loss scale", "[program][demo]") {
  const TemporaryDirectory directory;
  write_descriptions(directory.path() / "text");
  const json result = demo(directory, "diverge", {"perplexity"}, {"--text=text"});
  CHECK(result["flushed_512"].get<double>() < result["flushed"].get<double>());
  CHECK(result["flushed"].get<double>() > 0.3);
  CHECK(result["flushed_scale_1024"].get<double>() < 0.01);
  CHECK(value_of(result, "FP16, no loss scale", "perplexity") > value_of(result, "FP32", "perplexity"));
}

TEST_CASE("demo language: gradients of a recurrent model vanish without a loss scale", "[program][demo]") {
  const TemporaryDirectory directory;
  write_descriptions(directory.path() / "text");
  const json result = demo(directory, "language", {"perplexity"}, {"--text=text"});
  const json& flushed = result["flushed"];
  for (const char* layer : {"loss", "decoder", "rnn", "all"}) {
    INFO(layer << ": " << flushed.dump());
    CHECK(flushed[layer]["128"].get<double>() < flushed[layer]["1"].get<double>());
  }
  CHECK(flushed["all"]["1"].get<double>() > 0.3);
  CHECK(value_of(result, "FP16, no loss scale", "perplexity") > value_of(result, "FP32", "perplexity"));
}

TEST_CASE("demo masters: BF16 weights without masters stand still", "[program][demo]") {
  const TemporaryDirectory directory;
  const json result = demo(directory, "masters", {"accuracy"});
  CHECK(value_of(result, "BF16 without masters", "lost_last_epoch") > 0.9);
  CHECK(value_of(result, "BF16 with masters", "lost_last_epoch") < 0.1);
  CHECK(value_of(result, "FP16 without masters", "lost_last_epoch") <
        value_of(result, "BF16 without masters", "lost_last_epoch"));
}

TEST_CASE("demo histogram: what FP16 flushes, predicted and measured", "[program][demo]") {
  const TemporaryDirectory directory;
  const json result = demo(directory, "histogram", {"layers", "gradients"});
  for (const json& layer : result["layers"])
    CHECK(std::abs(layer["predicted_zeros"].get<double>() - layer["measured_zeros"].get<double>()) < 3.0);
}

TEST_CASE("demo skip: a skipped step changes nothing, a retried one loses nothing", "[program][demo]") {
  const TemporaryDirectory directory;
  const json result = demo(directory, "skip", {"scale"});
  CHECK(result["culprit"]["op"] == "cross_entropy");
  CHECK(result["drop"]["applied"].get<int>() + result["drop"]["skipped"].get<int>() ==
        result["drop"]["attempted"]);
  CHECK(result["retry"]["applied"] == result["batches"]);
}

TEST_CASE("demo table: every arm of the published comparison", "[program][demo]") {
  const TemporaryDirectory directory;
  const json result = demo(directory, "table", {});
  std::vector<std::string> arms;
  for (const json& row : result["rows"]) arms.push_back(row["arm"]);
  CHECK(arms == std::vector<std::string>{"fp32", "fp32_null", "amp_fp16-unscaled", "amp_fp16-constant-64",
                                         "amp_fp16-automatic", "amp_bf16"});
}

TEST_CASE("demo statistics: running statistics in FP16 stop short", "[program][demo]") {
  const TemporaryDirectory directory;
  const json result = demo(directory, "statistics", {"distance"});
  CHECK(result["rows"].back()["distance_fp16"].get<double>() >
        3.0 * result["rows"].back()["distance_fp32"].get<double>());
}

TEST_CASE("demo refuses what it does not know", "[program][demo]") {
  const TemporaryDirectory directory;
  const Outcome unknown = tandem_in(directory, {"demo", "divergence"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("diverge") && Contains("histogram"));
  const Outcome missing = tandem_in(directory, {"demo", "diverge", "--text=nowhere"});
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, Contains("./run data"));
  must(tandem_in(directory, {"train", "digits_mlp", "run_dir=run", "--limit-steps=2", "-q"}));
  for (const char* own : {"run", "run/checkpoints", "run/config.json"}) {
    const Outcome over = tandem_in(directory, {"demo", "histogram", "--small", "--out", own});
    CHECK(over.exit_code == 2);
    CHECK_THAT(over.err, Contains(std::string("--out ") + own) && Contains("choose another path"));
  }
}
