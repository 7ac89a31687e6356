// Charts: well-formed, escaped, the same text for the same numbers.
#include "train/plot/svg.h"

#include <catch2/catch.hpp>
#include <limits>

#include "core/error.h"

namespace tandem::test {

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

TEST_CASE("ticks are 1, 2 or 5 times a power of ten", "[plot]") {
  CHECK(plot::ticks(0.0, 10.0, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(plot::ticks(-1.0, 1.0, 4) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
  CHECK(plot::ticks(3.0, 47.0, 5) == std::vector<double>{10, 20, 30, 40});
}

}  // namespace tandem::test
