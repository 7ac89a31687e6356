// Shapes: a registry of two variants with options of every kind, for tests of described options.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/options/registry.h"

namespace tandem::test {

enum class Colour : std::uint8_t { red, green };

struct Corner {
  double radius = 0.5;
  bool filled = false;
  static const options::Schema& schema() {
    static const options::Schema schema =
        options::Describe<Corner>()
            .key("radius", &Corner::radius, "of the arc", {.min = 0.0})
            .key("filled", &Corner::filled, "inside too")
            .rule("filled", "needs a radius above 0",
                  [](const Corner& corner) { return !corner.filled || corner.radius > 0.0; });
    return schema;
  }
};

struct SquareOptions {
  double side = 1.0;
  std::optional<double> angle;  // what the family means by it: 45
  std::int64_t count = 3;
  Colour colour = Colour::green;
  std::array<std::int64_t, 2> offset{1, 2};
  std::vector<Corner> corners;
};

struct CircleOptions {
  double side = 2.0;
  double diameter = 1.0;
};

}  // namespace tandem::test

template <>
struct tandem::options::EnumNames<tandem::test::Colour> {
  static constexpr std::array values{"red", "green"};
};

namespace tandem::test {

using Shapes = options::Registry<double(int)>;

inline options::Describe<SquareOptions> describe_square() {
  options::Describe<SquareOptions> keys;
  keys.key("side", &SquareOptions::side, "length of a side", {.min = 0.0, .max = 10.0, .keyword = "auto"})
      .key("angle", &SquareOptions::angle, "by which it is turned", {.keyword = "auto", .fallback = 45.0})
      .key("count", &SquareOptions::count, "how many", {.min = 1, .max = 9})
      .key("colour", &SquareOptions::colour, "of the lines")
      .key("offset", &SquareOptions::offset, "from the corner", {.min = 0, .max = 100})
      .key("corners", &SquareOptions::corners, "of each")
      .rule("count", [](const SquareOptions& o) -> std::string {
        return o.corners.size() <= 4 ? "" : "has too many corners";
      });
  return keys;
}

inline const Shapes& shapes() {
  static const Shapes family(
      {.what = "shape", .help = "what is drawn", .fallback = "square"},
      {Shapes::entry<SquareOptions>(
           "square", "four sides", describe_square(),
           [](const SquareOptions& o, int times) { return o.side * o.side * times; }),
       Shapes::entry<CircleOptions>(
           "circle", "no side",
           options::Describe<CircleOptions>()
               .key("side", &CircleOptions::side, "length of a side", {.min = 0.0})
               .key("diameter", &CircleOptions::diameter, "of the circle", {.min = 0.0}),
           [](const CircleOptions& o, int times) { return o.diameter * times; })});
  return family;
}

}  // namespace tandem::test
