// Reports: runs read back, damaged and resumed ones too; curves; the table; the page.
#include <cmath>
#include <limits>

#include "report/breakdown.h"
#include "report/curves.h"
#include "report/facts.h"
#include "report/html.h"
#include "report/table.h"
#include "runs/metrics_table.h"
#include "tests/support/temporary_files.h"

using namespace tandem::testing;
using namespace tandem;
using namespace tandem::report;
using Catch::Contains;
using runs::Json;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string start(int step = 0) {
  return fmt::format(
      R"({{"event":"start","time":"2026-01-01T00:00:00Z","version":"0.1.0","parameters":10,"precision":"fp32","device":"cpu","step":{}}})"
      "\n",
      step);
}

std::string step(int number, const std::string& loss, int skipped = 0, const std::string& scale = "1.0") {
  return fmt::format(
      R"({{"event":"step","step":{},"applied":{},"epoch":1,"loss":{},"lr":0.1,"loss_scale":{},"skipped":{},"grad_norm":null,"items_per_s":100.5}})"
      "\n",
      number, number - skipped, loss, scale, skipped);
}

std::string eval(int step, double accuracy, const std::string& split = "test") {
  return fmt::format(
      R"({{"event":"eval","step":{},"epoch":1,"split":"{}","metrics":{{"accuracy":{},"loss":0.5}}}})"
      "\n",
      step, split, accuracy);
}

std::string end(int steps, const std::string& status = "completed") {
  return fmt::format(
      R"({{"event":"end","status":"{}","steps":{},"applied":{},"skipped":0,"wall_s":2.5,"peak_memory_bytes":1000,"metrics":{{"accuracy":0.5}}}})"
      "\n",
      status, steps, steps);
}

runs::RunRecord parsed(const std::string& text, const std::string& name = "run") {
  runs::RunRecord run;
  run.name = run.path = name;
  runs::read_metrics(run, text, "metrics.jsonl");
  return run;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

std::string page(const std::vector<runs::RunRecord>& runs) {
  return page_of(runs, recorded_exponents(runs, labels_of(runs)));
}

}  // namespace

TEST_CASE("a run that completed is read back", "[report]") {
  const runs::RunRecord run =
      parsed(start() + step(1, "2.5") + step(2, "1.5") + eval(2, 0.25) + eval(2, 0.5) + end(2));
  REQUIRE(run.steps.size() == 2);
  CHECK(run.steps[1].loss == 1.5);
  CHECK(std::isnan(run.steps[0].grad_norm));
  REQUIRE(run.evals.size() == 1);
  CHECK(run.evals[0].metrics.front().second == 0.5);  // of a step and split the last one
  CHECK(run.status() == "completed");
  CHECK(run.peak_memory_bytes == 1000);
  CHECK(run.notes.empty());
  CHECK(judged_by(run) == "accuracy");
  CHECK(metric_text(run.kind_of("accuracy"), best_of(run, "accuracy")) == "50.00 %");
}

TEST_CASE("a run says what its figures are", "[report]") {
  const std::string start =
      R"({"event":"start","time":"t","version":"0.1.0","parameters":1,"precision":"fp32","device":"cpu","step":0,"metrics":)"
      R"({"miou":{"share":true,"greater_is_better":true},"distance":{"share":false,"greater_is_better":false}}})"
      "\n";
  const auto eval = [](int step, double miou, double distance) {
    return fmt::format(
        R"({{"event":"eval","step":{},"epoch":1,"split":"test","metrics":{{"miou":{},"distance":{}}}}})"
        "\n",
        step, miou, distance);
  };
  const runs::RunRecord run = parsed(start + eval(1, 0.5, 30) + eval(2, 0.25, 20) + eval(3, 0.375, 25));
  CHECK(metric_text(run.kind_of("miou"), best_of(run, "miou")) == "50.00 %");
  CHECK(metric_text(run.kind_of("distance"), best_of(run, "distance")) == "20.0000");
  CHECK(run.kind_of("unheard of") == tasks::MetricKind{});
}

TEST_CASE("a resumed run: what was done again counts, what was given up does not", "[report]") {
  const std::string first = start() + step(1, "3") + step(2, "2") + step(3, "1") + eval(3, 0.75);
  SECTION("the session says where it starts") {
    const runs::RunRecord run = parsed(first + end(3, "interrupted") + start(1) + step(2, "1.75"));
    REQUIRE(run.steps.size() == 2);
    CHECK(run.steps[1].loss == 1.75);
    CHECK(run.evals.empty());
    CHECK(run.sessions.size() == 2);
    CHECK(run.sessions[1].step == 1);
    CHECK(run.wall_s == 2.5);
    CHECK(parsed(first + end(3, "interrupted") + start(1) + step(2, "1.75") + end(2, "completed")).wall_s ==
          5.0);
    CHECK(run.status() == "not ended");
    CHECK(run.last_step() == 2);
  }
  SECTION("an older one does not") {
    const std::string old =
        R"({"event":"start","time":"t","version":"0","parameters":1,"precision":"fp32","device":"cpu"})";
    const runs::RunRecord run = parsed(first + old + "\n" + step(2, "1.75") + end(2, "failed"));
    REQUIRE(run.steps.size() == 3);
    CHECK(run.steps[1].loss == 1.75);
    CHECK(run.evals.size() == 1);
    CHECK(run.status() == "failed");
  }
}

TEST_CASE("damaged lines are left out and named", "[report]") {
  const std::string whole = start() + step(1, "3") + step(2, "2");
  const runs::RunRecord cut = parsed(whole.substr(0, whole.size() - 20));
  CHECK(cut.steps.size() == 1);
  CHECK_THAT(cut.notes.at(0), Contains("The last line of metrics.jsonl is incomplete"));
  const runs::RunRecord damaged =
      parsed(start() + "\x01\x02garbage\n" + step(1, "null") + "[1,2]\n\n" + step(2, "\"x\""));
  CHECK(damaged.steps.size() == 2);
  CHECK(std::isnan(damaged.steps[0].loss));
  CHECK(std::isnan(damaged.steps[1].loss));
  CHECK(damaged.notes.at(0) == "metrics.jsonl: 2 lines cannot be read and were left out: line 2, 4.");
  CHECK_NOTHROW(page({cut}));
  CHECK_NOTHROW(page({damaged}));
}

TEST_CASE("a folder that is no run is refused with the reason", "[report]") {
  const TemporaryDirectory directory;
  const std::string path = directory.path().string();
  CHECK_THAT(user_error_of([&] { runs::read_run(path + "/none"); }), Contains("none: no such run directory"));
  CHECK_THAT(user_error_of([&] { runs::read_run(path); }),
             Contains("no run directory: it has no metrics.jsonl"));
  directory.write("metrics.jsonl", "");
  CHECK_THAT(user_error_of([&] { runs::read_run(path); }), Contains("metrics.jsonl: is empty"));
  directory.write("metrics.jsonl", "nothing\nat all\n");
  CHECK_THAT(user_error_of([&] { runs::read_run(path); }),
             Contains("none of its 2 lines is an event of a run"));
  directory.write("metrics.jsonl", start());
  directory.write("config.json", "{");
  const runs::RunRecord run = runs::read_run(path);
  CHECK(run.notes.size() == 2);
  CHECK_THAT(run.notes[0], Contains("config.json is damaged"));
  CHECK_THAT(run.notes[1], Contains("environment.json is missing"));
  CHECK_THAT(page({run}), Contains("No loss was logged") && Contains("config.json is damaged"));
}

TEST_CASE("figures of classes are drawn and listed, and a damaged file of them is left out", "[report]") {
  using tasks::Breakdown;
  const TemporaryDirectory directory;
  directory.write("metrics.jsonl", start() + step(1, "2.5") + eval(1, 0.25) + end(1));
  Breakdown breakdown{.names = {},
                      .figures = {{"AP", {}}},
                      .curves = {.title = "Curves", .x = "recall", .y = "p", .values = {}}};
  for (int i = 0; i < 9; ++i) {
    breakdown.names.push_back(fmt::format("class {}", i));
    breakdown.figures[0].second.push_back(i == 8 ? kNaN : 0.1 * i);
    breakdown.curves.values.emplace_back(i == 8 ? 0 : 5, 0.1 * i);
  }
  const auto write = [&](const std::string& text) { directory.write(tasks::kBreakdownFile, text); };
  const std::string path = directory.path().string(), json = tasks::to_json(breakdown).dump();
  write(json);
  const std::string drawn = page({runs::read_run(path)});
  CHECK_THAT(drawn, Contains("Curves") && Contains("<td>class 3</td><td>30.00 %</td>") &&
                        Contains("<td>class 8</td><td>–</td>") && Contains("Mean of 8 classes"));
  // Of those with curves the three best and the three worst, and their mean.
  const Panel panel = curves_panel(*breakdown_of(runs::read_run(path)));
  std::vector<std::string> names;
  for (const Swatch& swatch : panel.legend) names.push_back(swatch.name);
  CHECK(names ==
        std::vector<std::string>{"mean", "class 7", "class 6", "class 5", "class 2", "class 1", "class 0"});
  const auto again = tasks::breakdown_from(nlohmann::ordered_json::parse(json));
  REQUIRE(again);
  CHECK(tasks::to_json(*again).dump() == json);
  for (const std::string& damaged : std::vector<std::string>{
           "{", "[]", R"({"classes": []})", R"({"classes": ["a"], "figures": {"AP": [1, 2]}})",
           R"({"classes": [1], "figures": {}})",
           R"({"classes": ["a"], "figures": {}, "curves": {"values": [3]}})"}) {
    INFO(damaged);
    write(damaged);
    CHECK_FALSE(breakdown_of(runs::read_run(path)));
    CHECK(page({runs::read_run(path)}).find("<h2>Classes</h2>") == std::string::npos);
  }
}

TEST_CASE("downsampling keeps spikes, gaps and order", "[report]") {
  Curve curve;
  for (int i = 0; i < 10000; ++i) curve.add(i, std::sin(0.01 * i));
  curve.y[1234] = 100.0;
  curve.y[7777] = -100.0;
  curve.y[5000] = kNaN;
  const Curve less = downsampled(curve, 999);
  CHECK(less.x.size() <= 999);
  CHECK(less.x.size() > 600);
  CHECK(std::is_sorted(less.x.begin(), less.x.end()));
  for (std::size_t i = 0; i < less.x.size(); ++i) {
    const double own = curve.y[static_cast<std::size_t>(less.x[i])];
    CHECK((less.y[i] == own || (std::isnan(own) && std::isnan(less.y[i]))));
  }
  CHECK(std::count(less.x.begin(), less.x.end(), 1234.0) == 1);
  CHECK(std::count(less.x.begin(), less.x.end(), 7777.0) == 1);
  CHECK(std::count(less.x.begin(), less.x.end(), 5000.0) == 1);
  CHECK(downsampled(less, 999).x == less.x);
  CHECK(downsampled({}, 999).x.empty());
  Curve gaps;
  for (int i = 0; i < 5000; ++i) gaps.add(i, kNaN);
  CHECK(downsampled(gaps, 999).x.size() <= 999);
  CHECK_THROWS_AS(downsampled(curve, 2), tandem::UserError);
}

TEST_CASE("smoothing is a mean over a window that leaves gaps out", "[report]") {
  Curve curve;
  for (int i = 0; i < 10; ++i) curve.add(i, i == 4 ? kNaN : i);
  const Curve mean = smoothed(curve, 3, 100);
  CHECK(mean.x.size() == 10);
  CHECK(mean.y[0] == 0.5);
  CHECK(mean.y[2] == 2.0);
  CHECK(mean.y[4] == 4.0);
  CHECK(mean.y[5] == 5.5);
  CHECK(smoothed(curve, 3, 4).x == std::vector<double>{0, 3, 6, 9});
  CHECK(smoothed({}, 3, 4).x.empty());
  CHECK(smoothing_window(79) == 1);
  CHECK(smoothing_window(5000) == 101);
  CHECK(median({3.0, kNaN, 1.0, 2.0}) == 2.0);
  CHECK(std::isnan(median({kNaN})));
}

TEST_CASE("metrics.csv: a row a step, evaluations as columns", "[report]") {
  const std::string quoted =
      R"({"event":"eval","step":3,"epoch":2,"split":"a,b","metrics":{"say \"x\"":0.1,"loss":null}})";
  const runs::RunRecord run =
      parsed(start() + step(1, "2.5") + step(2, "null", 1, "1024.0") + eval(2, 0.5) + quoted + "\n");
  CHECK(runs::csv_of(run) ==
        "step,applied,epoch,loss,lr,loss_scale,skipped,grad_norm,items_per_s,test/accuracy,test/loss,"
        "\"a,b/say \"\"x\"\"\",\"a,b/loss\"\n"
        "1,1,1,2.5,0.1,1,0,,100.5,,,,\n"
        "2,1,1,,0.1,1024,1,,100.5,0.5,0.5,,\n"
        "3,,2,,,,,,,,,0.1,\n");
}

TEST_CASE("the page fetches nothing, runs nothing and escapes every name", "[report]") {
  runs::RunRecord run =
      parsed(start() + step(1, "2.5") + step(2, "2") + eval(2, 0.5, "<te&st>") + end(2), "<b>\"&run");
  run.config = Json{{"name", "<script>alert(1)</script>"}, {"data", {{"name", "<i>&amp;"}}}};
  run.environment = Json{{"command_line", "tandem train <x>"}};
  const std::string html = page({run});
  CHECK_THAT(html, Catch::StartsWith("<!DOCTYPE html>") && Catch::EndsWith("</html>\n"));
  CHECK_THAT(html, Contains("<title>&lt;b&gt;&quot;&amp;run – Tandem</title>"));
  CHECK_THAT(html, Contains("&lt;script&gt;alert(1)") && Contains("&lt;te&amp;st&gt;") &&
                       Contains("tandem train &lt;x&gt;") && Contains("&lt;i&gt;&amp;amp;"));
  CHECK_THAT(html, !Contains("<script") && !Contains("<b>\"") && !Contains("<te&st>") && !Contains("<i>&"));
  CHECK_THAT(html, !Contains("http:") && !Contains("https:") && !Contains("url(") && !Contains("<link"));
  CHECK_THAT(html, !Contains("nan") || !Contains(">nan<"));
  CHECK_THAT(html, Contains("prefers-color-scheme:dark") && Contains("@media print"));
  for (const std::string tag : {"svg", "figure", "text", "title", "dl", "div", "section", "ul", "p"})
    CHECK(count(html, "<" + tag + ">") + count(html, "<" + tag + " ") == count(html, "</" + tag + ">"));
}

TEST_CASE("a loss scale is drawn with the steps that were skipped", "[report]") {
  std::string text = start();
  for (int i = 1; i <= 100; ++i)
    text += step(i, "1.0", i >= 50 ? 2 : i >= 10 ? 1 : 0, i >= 50 ? "16384.0" : "65536.0");
  const std::string html = page({parsed(text)});
  CHECK(count(html, "class=\"alarm\"/>") == 2);
  CHECK_THAT(html, Contains("skipped steps (2)") && Contains("2¹⁴"));
  CHECK_THAT(page({parsed(start() + step(1, "1.0"))}),
             Contains("The loss was not scaled, and no step was skipped."));
}

TEST_CASE("splits keep their colours from chart to chart", "[report]") {
  const std::string text = start() + step(1, "2") + eval(1, 0.25, "validation") + step(2, "1") +
                           eval(2, 0.5, "validation") + eval(2, 0.5, "test") + end(2);
  const runs::RunRecord run = parsed(text);
  CHECK(usual_split(run) == "validation");
  const auto panels = panels_of({run}, {"run"});
  for (const std::size_t p : {std::size_t{0}, std::size_t{1}})
    for (const Swatch& swatch : panels.at(p).legend)
      CHECK(swatch.css == (swatch.name == "training" ? "f0" : swatch.name == "validation" ? "f1" : "f2"));
}

TEST_CASE("one step is a dot, and a loss that is never a number is no curve", "[report]") {
  CHECK_THAT(page({parsed(start() + step(1, "2.5") + end(1))}), Contains("class=\"dot f0\""));
  const std::string html = page({parsed(start() + step(1, "null") + step(2, "null") + end(2, "failed"))});
  CHECK_THAT(html, Contains("badge failed") && Contains("No loss was logged."));
}

TEST_CASE("a long run stays below a megabyte, spike included", "[report]") {
  std::string text = start();
  for (int i = 1; i <= 50000; ++i)
    text +=
        step(i, i == 31234 ? "900.0" : fmt::format("{:.6f}", 2.0 + std::sin(0.37 * i)), i / 1000, "4096.0");
  for (int i = 1; i <= 90; ++i) text += eval(i * 500, 0.01 * i);
  const std::string html = page({parsed(text)});
  CHECK(html.size() < 400'000);
  CHECK_THAT(html, Contains("of training steps and evaluations, logarithmic"));  // because of the spike
  std::vector<runs::RunRecord> runs;
  for (int r = 0; r < 10; ++r) runs.push_back(parsed(text, fmt::format("run{}", r)));
  CHECK(page(runs).size() < 1'000'000);
}

TEST_CASE("several runs: a table with the baseline first, and what differs", "[report]") {
  runs::RunRecord a = parsed(start() + step(1, "2") + eval(1, 0.5) + end(1), "a");
  runs::RunRecord b = parsed(start() + step(1, "3") + eval(1, 0.75), "b");
  a.config = Json{{"name", "x"}, {"optimizer", {{"lr", 0.1}, {"momentum", 0.9}}}, {"precision", "fp32"}};
  b.config =
      Json{{"name", "y"}, {"optimizer", {{"lr", 0.2}, {"momentum", 0.9}}}, {"precision", {{"level", "O2"}}}};
  b.sessions[0].precision = "O2/bf16";
  const auto rows = comparison({a, b}, {"a", "b"});
  REQUIRE(rows.size() == 3);
  CHECK(rows[0][1] == "status");
  CHECK(rows[1][3] == "baseline");
  CHECK(rows[2][1] == "not ended");
  CHECK(rows[2][2] == "75.00 %");
  CHECK(rows[2][3] == "+25.00");
  const auto differing = differences({a, b}, {"a", "b"});
  REQUIRE(differing.size() == 3);
  CHECK(differing[1] == std::vector<std::string>{"optimizer.lr", "0.1", "0.2"});
  CHECK(differing[2] == std::vector<std::string>{"precision", "fp32", "O2/bf16"});
  CHECK(labels_of({a, parsed(start(), "a")}) == std::vector<std::string>{"a", "a"});
  const std::string html = page({a, b});
  CHECK_THAT(html, Contains("2 runs") && Contains("Differences between configurations"));
  CHECK(page({a, a}).find("differ in") == std::string::npos);
  a.notes = b.notes = {"Something is missing."};
  CHECK_THAT(page({a, b}), Contains("<p>a, b: Something is missing.</p>"));
  std::vector<runs::RunRecord> many(9, b);
  for (std::size_t r = 0; r < many.size(); ++r) many[r].name = fmt::format("run{}", r);
  CHECK_THAT(page(many), Contains("<i class=\"f1 dashed\"></i>run8"));
}

TEST_CASE("recorded exponents of gradients become shares", "[report]") {
  const std::string gradients =
      R"({"event":"gradients","step":2,"epoch":1,"loss_scale":8.0,"total":100,"zeros":20,"flushed":8,"saving_scale":3,"first":-27,"counts":[8,0,72]})"
      "\n";
  const runs::RunRecord run = parsed(start() + step(2, "1.0") + gradients);
  REQUIRE(run.gradients.has_value());
  const Exponents found = recorded_exponents({run}, {"run"});
  REQUIRE(found.series.size() == 1);
  CHECK(found.series[0].first == -27);
  CHECK(found.series[0].shares == std::vector<double>{0.08, 0.0, 0.72});
  CHECK(found.series[0].zero == 0.2);
  CHECK(found.facts.at(0) ==
        "Without a loss scale FP16 rounds 10 % of the non-zero values to zero. A scale of 2^3 keeps 99.9 % "
        "of them.");
  CHECK_THAT(page({run}), Contains("A scale of 2³ keeps"));
  CHECK_FALSE(recorded_exponents({parsed(start())}, {"run"}).missing.empty());
}

TEST_CASE("tables of Markdown are aligned for people, and stay tables", "[report]") {
  CHECK(
      with_aligned_tables("| arm | Δ |\n|-|-|\n| fp32 | – |\n| amp | +0.01 |\n\n- A note | with a bar.\n") ==
      "| arm  | Δ     |\n|------|-------|\n| fp32 | –     |\n| amp  | +0.01 |\n\n- A note | with a bar.\n");
  CHECK(with_aligned_tables("a line\n") == "a line\n");
  CHECK(with_aligned_tables("| a |\n") == "| a |\n");
}
