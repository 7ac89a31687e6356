// Segments of the loss scale over a chain of ranges, against all partitions.
#include "amp/scale_segments.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using namespace tandem;
using amp::ScaleSpan;
using amp::ScaleStop;
using amp::ScaleWindow;

namespace {

constexpr std::size_t kNone = 1000;

ScaleWindow window_of(const std::vector<ScaleStop>& stops, std::size_t first, std::size_t last) {
  ScaleWindow window = stops[first].window;
  for (std::size_t i = first; i <= last; ++i) {
    window.low = std::max(window.low, stops[i].window.low);
    window.high = std::min(window.high, stops[i].window.high);
  }
  return window;
}

// The fewest segments over all subsets of the borders.
std::size_t fewest(const std::vector<ScaleStop>& stops) {
  std::vector<std::size_t> borders;
  for (std::size_t i = 1; i + 1 < stops.size(); ++i)
    if (stops[i].border) borders.push_back(i);
  std::size_t best = kNone;
  for (unsigned chosen = 0; chosen < 1u << borders.size(); ++chosen) {
    std::size_t first = 0, count = 0;
    bool fits = true;
    for (std::size_t b = 0; b <= borders.size() && fits; ++b) {
      if (b < borders.size() && (chosen >> b & 1u) == 0) continue;
      const std::size_t last = b < borders.size() ? borders[b] : stops.size() - 1;
      fits = !window_of(stops, first, last).empty();
      first = last;
      ++count;
    }
    if (fits) best = std::min(best, count);
  }
  return best;
}

}  // namespace

TEST_CASE("segments are as few as can be, and each has a scale", "[segments]") {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int divided = 0, none = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<ScaleStop> stops(static_cast<std::size_t>(draw(1, 12)));
    const int width = draw(0, 12);
    for (ScaleStop& stop : stops) {
      stop.window.low = draw(-10, 20);
      stop.window.high = stop.window.low + draw(draw(0, 9) == 0 ? -1 : 0, width);
      stop.border = draw(0, 1) == 1;
      if (stop.border && draw(0, 3) > 0) stop.window = {-10, 30};
    }
    const amp::ScaleSpans found = amp::fewest_spans(stops);
    const std::size_t best = fewest(stops);
    INFO("round " << round);
    REQUIRE(found.apart.has_value() == (best == kNone));
    if (best == kNone) {
      const auto [low, high] = *found.apart;
      CHECK(stops[low].window.low > stops[high].window.high);
      ++none;
      continue;
    }
    REQUIRE(found.spans.size() == best);
    divided += best > 1;
    CHECK(found.spans.front().first == 0);
    CHECK(found.spans.back().last == stops.size() - 1);
    for (std::size_t i = 0; i < best; ++i) {
      const ScaleSpan& span = found.spans[i];
      CHECK(span.window == window_of(stops, span.first, span.last));
      CHECK_FALSE(span.window.empty());
      if (i > 0) CHECK((stops[span.first].border && found.spans[i - 1].last == span.first));
    }
  }
  CHECK(divided > 200);
  CHECK(none > 200);
}

TEST_CASE("the scale changes at the last border that can be reached", "[segments]") {
  const std::vector<ScaleStop> stops{{{6, 20}}, {{0, 30}, true}, {{4, 18}}, {{-5, 12}, true}, {{-9, 1}}};
  const amp::ScaleSpans found = amp::fewest_spans(stops);
  CHECK(found.spans == std::vector<ScaleSpan>{{0, 3, {6, 12}}, {3, 4, {-5, 1}}});
  std::vector<ScaleStop> closed = stops;
  closed[1].border = closed[3].border = false;
  const auto apart = amp::fewest_spans(closed).apart;
  REQUIRE(apart.has_value());
  CHECK(*apart == std::pair<std::size_t, std::size_t>{0, 4});
  CHECK(amp::fewest_spans({}).spans.empty());
}
