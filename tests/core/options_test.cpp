// Described options: values, binding to structs, rules across keys, and registries of variants that one key
// names.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "core/error.h"
#include "core/options/check.h"
#include "core/options/one_or_more.h"
#include "core/options/registry.h"
#include "tests/core/described_shapes.h"

namespace tandem::test {

namespace {

using namespace options;
using Catch::Contains;

// A section with keys of its own beside those of a choice, and of a struct that is spread out in it.
struct Drawing {
  Choice<shapes> shape;
  std::int64_t copies = 1;
  Corner corner;
  static const Schema& schema() {
    static const Schema schema = Describe<Drawing>()
                                     .choice(&Drawing::shape)
                                     .key("copies", &Drawing::copies, "how often", {.min = 1})
                                     .options_of(&Drawing::shape)
                                     .include(&Drawing::corner)
                                     .short_key("name");
    return schema;
  }
};

Drawing drawn(const Given& given) {
  Value object(given);
  CHECK(validate(Drawing::schema(), object).empty());
  Drawing drawing;
  store_options(Drawing::schema(), &drawing, object);
  return drawing;
}

std::string problem_of(const Given& given) {
  Value object(given);
  const auto problems = validate(Drawing::schema(), object);
  return problems.empty() ? "" : problems.front().path + ": " + problems.front().what;
}

std::vector<std::string> names_of(const Schema& schema) {
  std::vector<std::string> names;
  for (const Key& key : schema.keys) names.push_back(key.name);
  return names;
}

template <class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("values are written as JSON", "[options]") {
  CHECK(to_string(Value()) == "null");
  CHECK(to_string(true) == "true");
  CHECK(to_string(3) == "3");
  CHECK(to_string(-3.0) == "-3.0");
  CHECK(to_string(1e-8) == "1e-08");
  CHECK(to_string(0.1) == "0.1");
  CHECK(to_string(std::numeric_limits<double>::infinity()) == "null");
  CHECK(to_string("a\"b\\\n\t\x01ü") == R"("a\"b\\\n\t\u0001ü")");
  CHECK(to_string(std::vector{1, 2}) == "[1,2]");
  CHECK(to_string(Given{{"a", 1}, {"b", Given{{"c", "x"}}}, {"d", std::vector<double>{}}}) ==
        R"({"a":1,"b":{"c":"x"},"d":[]})");
  CHECK(excerpt(std::vector<int>(100, 7)).size() < 50);
  CHECK(Value(Given{{"a", 1}}) == Value(Given{{"a", 1}}));
  CHECK_FALSE(Value(1) == Value(1.0));
  CHECK_FALSE(Value(Given{{"a", 1}}) == Value(Given{{"b", 1}}));
}

TEST_CASE("a described struct takes values and keeps its own defaults", "[options]") {
  const Schema schema = describe_square();
  SquareOptions options;
  store_options(schema, &options,
                Given{{"count", 5},
                      {"colour", "red"},
                      {"offset", 7},
                      {"corners", std::vector<Given>{{{"radius", 2.0}}, Given{{"filled", true}}}}});
  CHECK(options.side == 1.0);
  CHECK(options.count == 5);
  CHECK(options.colour == Colour::red);
  CHECK(options.offset == std::array<std::int64_t, 2>{7, 7});
  REQUIRE(options.corners.size() == 2);
  CHECK(options.corners[0].radius == 2.0);
  CHECK(options.corners[1].radius == 0.5);
  CHECK(options.corners[1].filled);
  CHECK(to_string(load_options(schema, &options)) ==
        R"({"side":1.0,"angle":45.0,"count":5,"colour":"red","offset":[7,7],)"
        R"("corners":[{"radius":2.0,"filled":false},{"radius":0.5,"filled":true}]})");
  // A keyword puts the default back, and an optional that holds nothing is shown as what it stands for.
  options.side = 4.0;
  options.angle = 10.0;
  store_options(schema, &options, Given{{"side", "auto"}, {"angle", "auto"}});
  CHECK(options.side == 1.0);
  CHECK_FALSE(options.angle.has_value());
  CHECK(schema.find("angle")->default_value == Value(45.0));
  CHECK(schema.find("colour")->type.choices == std::vector<std::string>{"red", "green"});
}

TEST_CASE("an item may stand alone for a list of it", "[options]") {
  struct Files {
    OneOrMore<std::string> train{"a"};
    std::optional<OneOrMore<std::int64_t>> sizes{};
  };
  const Schema schema = Describe<Files>()
                            .key("train", &Files::train, "what is read")
                            .key("sizes", &Files::sizes, "what fits", {.min = 1});
  const auto read = [&](const Given& given) {
    return to_string(load_options(schema, bound("files", schema, given).data()));
  };
  CHECK(read({}) == R"({"train":"a","sizes":null})");
  CHECK(read({{"train", "b"}, {"sizes", 3}}) == R"({"train":"b","sizes":3})");
  CHECK(read({{"train", std::vector{"b"}}, {"sizes", std::vector{3, 4}}}) ==
        R"({"train":"b","sizes":[3,4]})");
  CHECK(read({{"train", std::vector{"c", "b"}}}) == R"({"train":["c","b"],"sizes":null})");
  CHECK(schema.find("train")->type.text() == "string, or list of string");
  CHECK(schema.find("sizes")->type.text() == "integer ≥ 1, or list of integer ≥ 1, or null");
  const auto refused = [&](const Given& given) { return message_of([&] { bound("files", schema, given); }); };
  CHECK(refused({{"train", std::vector<std::string>{}}}) ==
        "[files] train: expected string, or list of string, got []");
  CHECK(refused({{"train", std::vector{"a"}}, {"sizes", std::vector{3, 0}}}) ==
        "[files] sizes.1: expected integer ≥ 1, got 0");
  CHECK_THAT(refused({{"sizes", 0}}), Contains("sizes: expected integer ≥ 1, got 0"));
  CHECK_THAT(refused({{"train", 1}}), Contains("train: expected string, or list of string, got 1"));
  Files filled{.train = {}, .sizes = std::vector<std::int64_t>{2, 0}};
  CHECK_THAT(message_of([&] { require_sound("files", schema, &filled); }),
             Contains("sizes.1 must be at least 1, is 0"));
}

TEST_CASE("structs filled in C++ are checked by the same description", "[options]") {
  const Schema schema = describe_square();
  const auto complaint = [&](SquareOptions options) {
    return message_of([&] { require_sound("square", schema, &options); });
  };
  CHECK(complaint({}) == "nothing was thrown");
  CHECK(complaint({.side = 11.0}) == "[square] side must lie in [0, 10], is 11");
  CHECK_THAT(complaint({.side = std::nan("")}), Contains("side must lie in [0, 10], is nan"));
  CHECK(complaint({.count = 0}) == "[square] count must lie in [1, 9], is 0");
  CHECK_THAT(complaint({.offset = {1, -1}}), Contains("offset.1 must lie in"));
  CHECK(complaint({.corners = {{}, {.radius = -1.0}}}) ==
        "[square] corners.1.radius must be at least 0, is -1");
  CHECK(complaint({.corners = {{}, {.radius = 0.0, .filled = true}}}) ==
        "[square] corners.1.filled needs a radius above 0");
  CHECK(complaint({.corners = std::vector<Corner>(5)}) == "[square] count has too many corners");
  try {
    SquareOptions wrong{.side = 11.0};
    require_sound("square", schema, &wrong);
  } catch (const OptionError& error) {
    CHECK(error.path() == "side");
    CHECK(error.detail() == "must lie in [0, 10], is 11");
  }
}

TEST_CASE("bounds are told as they are broken", "[options]") {
  const auto told = [](const Rule& rule, double value) {
    return Binding<double>::type(rule).broken_range(value);
  };
  CHECK(told({.min = 0.0, .max = 1e6}, -1.0) == "must be at least 0, is -1");
  CHECK(told({.min = 0.0, .max = 1e6}, 2e6) == "must lie in [0, 1000000], is 2000000");
  CHECK(told({.min = 0.0, .max = 1.0, .open_max = true}, 1.0) == "must lie in [0, 1), is 1");
  CHECK(told({.min = 0.0, .open_min = true}, 0.0) == "must be more than 0, is 0");
  CHECK(told({.max = 3.0}, 4.0) == "must be at most 3, is 4");
  CHECK(told({}, std::numeric_limits<double>::infinity()) == "must be finite, is inf");
}

TEST_CASE("one of a family is made by name", "[options]") {
  CHECK(shapes().names() == std::vector<std::string>{"square", "circle"});
  CHECK(shapes().make("circle", {{"diameter", 3}}, 2) == 6.0);
  CHECK(shapes().make("square", {}, 2) == 2.0);
  const auto message = [](const char* name, const Given& given) {
    return message_of([&] { shapes().make(name, given, 1); });
  };
  CHECK(message("cirlce", {}) == "[shape] there is no shape \"cirlce\"; did you mean \"circle\"?");
  CHECK_THAT(message("circle", {{"diametr", 1.0}}),
             Contains("[circle] diametr: unknown key; did you mean diameter?"));
  CHECK_THAT(message("circle", {{"count", 1}}), Contains("[circle] count: unknown key"));
  CHECK_THAT(message("square", {{"count", 1.5}}),
             Contains("[square] count: expected integer in [1, 9], got 1.5"));
  CHECK_THAT(message("square", {{"colour", "blue"}}), Contains("one of red, green"));
  CHECK_THAT(message("square", {{"corners", std::vector<Given>{{{"radius", 0.0}, {"filled", true}}}}}),
             Contains("corners.0.filled needs a radius above 0"));
}

TEST_CASE("a section holds a choice with its options beside keys of its own", "[options]") {
  const Drawing by_default = drawn({});
  CHECK(by_default.shape.name() == "square");
  CHECK(by_default.shape.as<SquareOptions>().count == 3);
  CHECK_THROWS_AS(by_default.shape.as<CircleOptions>(), InternalError);
  CHECK(shapes().make(by_default.shape, 3) == 3.0);

  Drawing circle = drawn({{"copies", 2}, {"name", "circle"}, {"diameter", 4.0}, {"filled", true}});
  CHECK(circle.shape.as<CircleOptions>().diameter == 4.0);
  CHECK(circle.copies == 2);
  CHECK(circle.corner.filled);
  CHECK(circle.shape.value("diameter") == Value(4.0));
  CHECK(circle.shape.value("count") == Value());
  // A copy is a value of its own.
  const Drawing copy = circle;
  store_options(Drawing::schema(), &circle, Given{{"name", "square"}, {"side", 5.0}});
  CHECK(circle.shape.as<SquareOptions>().side == 5.0);
  CHECK(copy.shape.as<CircleOptions>().diameter == 4.0);
  CHECK(to_string(load_options(Drawing::schema(), &copy)) ==
        R"({"name":"circle","copies":2,"side":2.0,"diameter":4.0,"radius":0.5,"filled":true})");
}

TEST_CASE("the keys of a choice say whose they are", "[options]") {
  const Schema& schema = Choice<shapes>::schema();
  // `side` has a range, a keyword and a default of its own in each.
  CHECK(names_of(schema) == std::vector<std::string>{"name", "side", "side", "angle", "count", "colour",
                                                     "offset", "corners", "diameter"});
  CHECK(schema.find("side", "circle")->default_value == Value(2.0));
  CHECK(schema.find("side", "square")->default_value == Value(1.0));
  CHECK(schema.find("count")->only_for == std::vector<std::string>{"square"});
  CHECK(schema.short_key == "name");
  CHECK(schema.find("name")->default_value == Value("square"));

  CHECK(problem_of({{"name", "circle"}, {"count", 3}}) ==
        "count: no key of \"circle\"; it belongs to square");
  CHECK_THAT(problem_of({{"name", "circl"}}), Contains("did you mean \"circle\"?"));
  CHECK_THAT(problem_of({{"cuont", 3}}), Contains("did you mean count?"));
  const Drawing broken =
      drawn({{"corners", std::vector<Given>{{{"radius", 0.0}, {"filled", true}}}}, {"filled", true}});
  const auto found = complaints(Drawing::schema(), &broken, "drawing");
  REQUIRE(found.size() == 1);
  CHECK(found[0].path == "drawing.corners.0.filled");
}

TEST_CASE("a name that two keys of one thing have is a bug", "[options]") {
  Describe<SquareOptions> twice = describe_square();
  twice.key("side", &SquareOptions::count, "again");
  CHECK_THROWS_AS(Schema(twice), InternalError);
}

TEST_CASE("a family may require a name", "[options]") {
  static const Shapes required({.what = "shape", .help = "what is drawn"},
                               {Shapes::entry<CircleOptions>("circle", "round", Describe<CircleOptions>(),
                                                             [](const CircleOptions&, int) { return 0.0; })});
  CHECK(required.schema().find("name")->required);
  CHECK(required.fallback().name().empty());
  CHECK(required.fallback().value("diameter") == Value());
  Value object{Given{}};
  const auto problems = validate(required.schema(), object);
  REQUIRE(problems.size() == 1);
  CHECK_THAT(problems[0].what, Contains("required: what is drawn (one of circle)"));
}

}  // namespace tandem::test
