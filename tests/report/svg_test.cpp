// Charts: well-formed, escaped, the same text for the same numbers.
#include "report/plot/svg.h"

#include <catch2/catch.hpp>
#include <limits>

#include "core/error.h"

using namespace tandem;

using Catch::Contains;

namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("a line chart: lines, breaks, logarithmic axes, marks", "[plot]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const plot::LineChart chart{.title = "loss & <scale>",
                              .x = {.title = "step"},
                              .y = {.title = "scale", .log2 = true},
                              .lines = {{.name = "a", .x = {0, 1, 2, 3}, .y = {1, 2, nan, 8}},
                                        {.name = "b", .x = {0, 3}, .y = {0, 4}, .steps = true}},
                              .marks = {{1.0}, {2.0}},
                              .marks_name = "skipped"};
  const std::string svg = plot::to_svg(chart);
  CHECK(svg == plot::to_svg(chart));
  CHECK_THAT(svg, Catch::StartsWith("<svg xmlns=") && Catch::EndsWith("</svg>\n"));
  CHECK_THAT(svg, Contains("loss &amp; &lt;scale&gt;") && !Contains("nan") && !Contains("inf"));
  CHECK(count(svg, "<path") == 2);
  CHECK(count(svg, "M") == 3);  // a is broken once; b has one point, as 0 has no logarithm
  CHECK(count(svg, "skipped") == 1);
  CHECK(count(svg, "<text") == count(svg, "</text>"));
  CHECK_NOTHROW(plot::to_svg(plot::LineChart{.title = "empty", .x = {}, .y = {}, .lines = {}}));
  CHECK_THROWS_AS(plot::to_svg(plot::LineChart{
                      .title = "", .x = {}, .y = {}, .lines = {{.name = "c", .x = {1}, .y = {}}}}),
                  UserError);
}

TEST_CASE("a histogram: one bar for each share above zero, one for zero", "[plot]") {
  const plot::HistogramChart chart{
      .title = "gradients",
      .series = {{.name = "layer1", .first = -30, .shares = {0.1, 0.0, 0.4}, .zero = 0.5}},
      .limits = {{.name = "flushed", .exponent = -25, .shaded = true}}};
  const std::string svg = plot::to_svg(chart);
  CHECK(count(svg, "<rect") == 1 + 1 + 3);  // ground, shade, bars
  CHECK_THAT(svg, Contains("flushed"));
  CHECK(count(plot::to_svg(std::vector{chart, chart}), "gradients</text>") == 2);
}

TEST_CASE("a legend takes as many rows as its names need", "[plot]") {
  plot::LineChart chart{.title = "many", .x = {}, .y = {}, .lines = {}};
  for (int i = 0; i < 8; ++i)
    chart.lines.push_back({.name = "a rather long name of a line", .x = {0, 1}, .y = {0, 1}});
  const std::string svg = plot::to_svg(chart);
  CHECK_THAT(svg, Contains("height=\"432\""));  // two rows more than one
  CHECK(count(svg, "a rather long name") == 8);
}

TEST_CASE("a logarithmic axis has nothing to show of zero and below", "[plot]") {
  for (const plot::Axis& axis : {plot::Axis{.log2 = true}, plot::Axis{.log10 = true}, plot::Axis{}}) {
    plot::Range range;
    for (const double value : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")})
      range.take(value, axis);
    CHECK(range.empty == (axis.log2 || axis.log10));
    for (const double value : {2.0, 0.5}) range.take(value, axis);
    CHECK(range.low == (axis.log2 || axis.log10 ? 0.5 : -1.0));
    CHECK(range.high == 2.0);
  }
}

TEST_CASE("ticks are 1, 2 or 5 times a power of ten", "[plot]") {
  CHECK(plot::ticks(0.0, 10.0, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(plot::ticks(-1.0, 1.0, 4) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
  CHECK(plot::ticks(3.0, 47.0, 5) == std::vector<double>{10, 20, 30, 40});
}

TEST_CASE("logarithmic and short labels", "[plot]") {
  const auto labels = [](plot::Axis axis, double low, double high, int count) {
    std::string text;
    for (const auto& [label, value] : plot::Scale(axis, low, high, 0.0, 100.0).labels(count))
      text += label + " ";
    return text;
  };
  CHECK(labels({.title = {}, .log10 = true}, 1e-6, 10.0, 8) == "10^-6 10^-5 10^-4 0.001 0.01 0.1 1 10 ");
  CHECK(labels({.title = {}, .log10 = true}, 0.1, 0.4, 4) == "0.1 0.2 0.3 0.4 ");
  CHECK(labels({.title = {}, .log2 = true}, 1.0, 65536.0, 4) == "1 32 1024 2^15 ");
  CHECK(labels({.title = {}, .whole = true, .low = 0.0, .high = 2.0}, 0.0, 2.0, 8) == "0 1 2 ");
  const plot::Axis brief{.title = {}, .short_labels = true, .low = 0.0};
  CHECK(labels(brief, 0.0, 800'000.0, 5) == "0 200k 400k 600k 800k ");
  CHECK(labels(brief, 0.0, 8e24, 5) == "0 2e24 4e24 6e24 8e24 ");
  CHECK(labels(brief, 0.0, 4e-4, 5) == "0 1e-4 2e-4 3e-4 4e-4 ");
  CHECK(plot::raised("2^16 and 10^-4, a^b") == "2¹⁶ and 10⁻⁴, a^b");
}

TEST_CASE("a chart of a page has classes for colours, and no title or ground of its own", "[plot]") {
  const plot::LineChart chart{.title = "a & b",
                              .x = {.title = "step", .whole = true},
                              .y = {},
                              .lines = {{.name = "raw", .x = {1, 2}, .y = {1, 2}, .faint = true, .colour = 1},
                                        {.name = "<mean>", .x = {1, 2}, .y = {1, 2}, .colour = 1},
                                        {.name = "lone", .x = {1}, .y = {1}, .colour = 9}},
                              .marks = {{1.0}},
                              .hovers = 10};
  const std::string svg = plot::to_svg(chart, {.page = true});
  CHECK_THAT(svg, Catch::StartsWith("<svg class=\"chart\"") && Contains("aria-label=\"a &amp; b\""));
  CHECK_THAT(svg, Contains("class=\"line faint s1\"") && Contains("class=\"line dashed s2\"") &&
                      Contains("class=\"dot f2\"") && Contains("class=\"alarm\""));
  CHECK_THAT(svg, !Contains("fill=\"#") && !Contains("stroke=\"#") && !Contains(">a &amp; b<"));
  CHECK_THAT(svg, Contains("<title>step 1\n&lt;mean&gt;: 1\nlone: 1</title>") && !Contains("raw:"));
}
