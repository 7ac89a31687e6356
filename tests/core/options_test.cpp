// Described options: values, binding to structs, rules across keys, and registries of variants that one key
// names.
#include <fmt/format.h>

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

namespace tandem::test {

enum class Colour : std::uint8_t { red, green };

namespace {

using namespace options;
using Catch::Contains;

struct Corner {
  double radius = 0.5;
  bool filled = false;
  static const Schema& schema() {
    static const Schema schema = Describe<Corner>()
                                     .key("radius", &Corner::radius, "of the arc", {.min = 0.0})
                                     .key("filled", &Corner::filled, "inside too")
                                     .rule("filled", "needs a radius above 0", [](const Corner& corner) {
                                       return !corner.filled || corner.radius > 0.0;
                                     });
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

}  // namespace
}  // namespace tandem::test

template <>
struct tandem::options::EnumNames<tandem::test::Colour> {
  static constexpr std::array values{"red", "green"};
};

namespace tandem::test {
namespace {

using Shapes = Registry<double(int)>;

Describe<SquareOptions> describe_square() {
  Describe<SquareOptions> keys;
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

const Shapes& shapes() {
  static const Shapes family(
      {.what = "shape", .help = "what is drawn", .fallback = "square"},
      {Shapes::entry<SquareOptions>(
           "square", "four sides", describe_square(),
           [](const SquareOptions& o, int times) { return o.side * o.side * times; }),
       Shapes::entry<CircleOptions>(
           "circle", "no side",
           Describe<CircleOptions>()
               .key("side", &CircleOptions::side, "length of a side", {.min = 0.0})
               .key("diameter", &CircleOptions::diameter, "of the circle", {.min = 0.0}),
           [](const CircleOptions& o, int times) { return o.diameter * times; })});
  return family;
}

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

// ---- Sections of a whole in which its variants have keys, too

namespace {

struct Painting {
  struct Frame {
    std::string wood = "oak";
    static const Schema& schema() {
      static const Schema schema =
          Describe<Frame>()
              .key("wood", &Frame::wood, "it is made of")
              .rule("wood", "must not be balsa", [](const Frame& f) { return f.wood != "balsa"; });
      return schema;
    }
  };
  Frame frame;
  Corner corner;
};

struct Poster {
  struct Frame {
    Choice<shapes> shape;
    std::int64_t pins = 4;
    static const Schema& schema() {
      static const Schema schema = Describe<Frame>()
                                       .choice(&Frame::shape)
                                       .key("pins", &Frame::pins, "that hold it", {.min = 1})
                                       .options_of(&Frame::shape)
                                       .short_key("name");
      return schema;
    }
  };
  Frame frame;
};

struct Plain {};

using Pictures = Registry<int()>;

const Pictures& pictures() {
  static const Pictures family(
      {.what = "picture", .help = "what hangs there", .fallback = "painting", .discriminator = "picture"},
      {Pictures::entry<Painting>("painting", "of oil",
                                 Describe<Painting>()
                                     .key("frame", &Painting::frame, "around it")
                                     .key("corner", &Painting::corner, "of it"),
                                 [](const Painting&) { return 1; }),
       Pictures::entry<Poster>(
           "poster", "of paper",
           Describe<Poster>().key("frame", &Poster::frame, "around it", {.required = true}),
           [](const Poster&) { return 2; }),
       Pictures::entry<Plain>("plain", "nothing", Describe<Plain>(), [](const Plain&) { return 3; })});
  return family;
}

struct Wall {
  struct Frame {
    double width = 3.0;
    static const Schema& schema() {
      static const Schema schema =
          Describe<Frame>()
              .key("width", &Frame::width, "in inches", {.min = 0.0})
              .rule("width", "must not be 13", [](const Frame& f) { return f.width != 13.0; });
      return schema;
    }
  };
  Frame frame;
  Choice<pictures> picture;
  static const Schema& schema() {
    static const Schema schema = Describe<Wall>()
                                     .choice(&Wall::picture)
                                     .section("frame", &Wall::frame, "around it")
                                     .options_of(&Wall::picture);
    return schema;
  }
};

Wall hung(const Given& given) {
  Value object(given);
  for (const Problem& problem : validate(Wall::schema(), object)) FAIL(problem.path + ": " + problem.what);
  Wall wall;
  store_options(Wall::schema(), &wall, object);
  return wall;
}

std::string wall_problem(const Given& given) {
  Value object(given);
  const auto problems = validate(Wall::schema(), object);
  return problems.empty() ? "" : problems.front().path + ": " + problems.front().what;
}

}  // namespace

TEST_CASE("variants have keys in a section of the whole", "[options]") {
  const Wall by_default = hung({});
  CHECK(
      to_string(load_options(Wall::schema(), &by_default)) ==
      R"({"picture":"painting","frame":{"width":3.0,"wood":"oak"},"corner":{"radius":0.5,"filled":false}})");
  const Wall painting = hung({{"frame", Given{{"wood", "ash"}, {"width", 2.0}}}});
  CHECK(painting.frame.width == 2.0);
  CHECK(painting.picture.as<Painting>().frame.wood == "ash");
  CHECK(painting.picture.value("frame.wood") == Value("ash"));
  CHECK(painting.picture.value("frame.width") == Value());
  CHECK(painting.picture.value("corner.radius") == Value(0.5));

  const Wall poster =
      hung({{"picture", "poster"}, {"frame", Given{{"name", "circle"}, {"width", 1.0}, {"diameter", 5.0}}}});
  CHECK(poster.frame.width == 1.0);
  CHECK(poster.picture.as<Poster>().frame.shape.as<CircleOptions>().diameter == 5.0);
  CHECK(to_string(load_options(Wall::schema(), &poster)) ==
        R"({"picture":"poster","frame":{"name":"circle","width":1.0,"pins":4,"side":2.0,"diameter":5.0}})");
  // The short form is the variant's; the section has its defaults beside it.
  const Wall word = hung({{"picture", "poster"}, {"frame", "circle"}});
  CHECK(word.picture.as<Poster>().frame.shape.name() == "circle");
  CHECK(word.frame.width == 3.0);
  // A variant that adds nothing.
  const Wall plain = hung({{"picture", "plain"}, {"frame", Given{{"width", 9.0}}}});
  CHECK(to_string(load_options(Wall::schema(), &plain)) == R"({"picture":"plain","frame":{"width":9.0}})");
}

TEST_CASE("a key in a shared section says whose it is", "[options]") {
  CHECK(wall_problem({{"picture", "poster"}}) ==
        "frame: required: around it (object, or its name alone (one of square, circle))");
  CHECK(wall_problem({{"frame", Given{{"pins", 3}}}}) ==
        "frame.pins: no key of \"painting\"; it belongs to poster");
  CHECK(wall_problem({{"picture", "plain"}, {"corner", Given{}}}) ==
        "corner: no key of \"plain\"; it belongs to painting");
  CHECK_THAT(wall_problem({{"frame", Given{{"woood", "oak"}}}}), Contains("did you mean frame.wood?"));
  CHECK_THAT(wall_problem({{"woodd", "oak"}}), Contains("did you mean frame.wood?"));
  // Nothing of another variant is proposed.
  CHECK_THAT(wall_problem({{"picture", "plain"}, {"woodd", "oak"}}), Contains("known here: picture, frame"));
  CHECK_THAT(wall_problem({{"picture", "poster"}, {"frame", Given{{"name", "circle"}, {"count", 3}}}}),
             Contains("frame.count: no key of \"circle\"; it belongs to square"));
  const auto rules = [](const Wall& wall) {
    const auto found = complaints(Wall::schema(), &wall);
    return found.empty() ? "" : found.front().path + " " + found.front().what;
  };
  CHECK(rules(hung({{"frame", Given{{"width", 13}}}})) == "frame.width must not be 13");
  CHECK(rules(hung({{"frame", Given{{"wood", "balsa"}}}})) == "frame.wood must not be balsa");
}

TEST_CASE("equal keys of variants are listed once", "[options]") {
  std::vector<std::string> rows;
  for (const auto& [path, key, only_for] : list_keys(Wall::schema()))
    rows.push_back(fmt::format("{} {}", path, fmt::join(only_for, ",")));
  const auto has = [&](const std::string& row) { return std::count(rows.begin(), rows.end(), row); };
  CHECK(has("frame.width ") == 1);
  CHECK(has("frame.wood painting") == 1);
  CHECK(has("frame.pins poster") == 1);
  CHECK(has("frame.count square") == 1);
  CHECK(has("corner.radius painting") == 1);
  std::vector<std::string> plain;
  for (const auto& listed : list_keys(Wall::schema(), "plain")) plain.push_back(listed.path);
  CHECK(plain == std::vector<std::string>{"picture", "frame", "frame.width"});
}

// ---- Where sections' mistakes are told

namespace {

// A file as its reader gives it: every value with its line, counted from 1.
Value written(std::vector<Value::Member> members, Layer layer = Layer::file) {
  int line = 0;
  const std::function<void(Value&)> place = [&](Value& value) {
    value.origin = {
        .layer = layer, .source = std::make_shared<const std::string>("wall.json"), .line = ++line};
    for (Value& item : value.items) place(item);
    for (Value::Member& member : value.members) place(member.value);
  };
  Value object(std::move(members));
  place(object);
  return object;
}

std::vector<std::string> wall_problems(Value object) {
  std::vector<std::string> texts;
  for (const Problem& problem : validate(Wall::schema(), object)) texts.push_back(problem.text());
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a mistyped key of a section is told with its line, its place and its neighbour", "[options]") {
  CHECK(wall_problems(written({{"frame", Given{{"width", 2.0}, {"wod", "oak"}}}})) ==
        Texts{"wall.json:4: frame.wod: unknown key; did you mean frame.wood? (string)"});
  // The section's own, below a variant that adds to it, one that is a choice and one that adds nothing.
  CHECK(wall_problems(written({{"frame", Given{{"widht", 2.0}}}})) ==
        Texts{"wall.json:3: frame.widht: unknown key; did you mean frame.width? (number ≥ 0)"});
  CHECK(
      wall_problems(written({{"picture", "poster"}, {"frame", Given{{"name", "circle"}, {"widht", 2.0}}}})) ==
      Texts{"wall.json:5: frame.widht: unknown key; did you mean frame.width? (number ≥ 0)"});
  CHECK(wall_problems(written({{"picture", "plain"}, {"frame", Given{{"widht", 2.0}}}})) ==
        Texts{"wall.json:4: frame.widht: unknown key; did you mean frame.width? (number ≥ 0)"});
  // In another section, outside of every section, and in a list inside of one.
  CHECK(wall_problems(written({{"frame", Given{{"radios", 2.0}}}})) ==
        Texts{"wall.json:3: frame.radios: unknown key; did you mean corner.radius? (number ≥ 0)"});
  CHECK(wall_problems(written({{"frme", Given{}}})) ==
        Texts{"wall.json:2: frme: unknown key; did you mean frame? (object)"});
  const std::vector<Given> corners{{{"radius", 1.0}}, {{"radius", 1.0}, {"fill", true}}};
  CHECK(wall_problems(written({{"picture", "poster"}, {"frame", Given{{"corners", corners}}}})) ==
        Texts{"wall.json:9: frame.corners.1.fill: unknown key; did you mean frame.corners.1.filled? (true or "
              "false)"});
  // Each mistake of a file, in its order.
  CHECK(wall_problems(written(
            {{"corner", Given{{"radius", -1.0}}}, {"frame", Given{{"width", "wide"}, {"pins", 1}}}})) ==
        Texts{"wall.json:3: corner.radius: expected number ≥ 0, got -1.0",
              "wall.json:5: frame.width: expected number ≥ 0, got \"wide\"",
              "wall.json:6: frame.pins: no key of \"painting\"; it belongs to poster"});
}

TEST_CASE("a wrong discriminator is one mistake", "[options]") {
  // Not one for every key beside it or in the sections, whose variant is not known then.
  CHECK(wall_problems(written({{"picture", "postr"}, {"frame", Given{{"name", "circle"}, {"pins", 2}}}})) ==
        Texts{"wall.json:2: picture: expected one of painting, poster, plain, got \"postr\"; did you mean "
              "\"poster\"?"});
  CHECK(wall_problems(written({{"picture", 3}, {"frame", Given{{"width", 1.0}}}})) ==
        Texts{"wall.json:2: picture: expected one of painting, poster, plain, got 3"});
  CHECK(wall_problems(written({{"picture", Value()}})) ==
        Texts{"wall.json:2: picture: expected one of painting, poster, plain, got null"});
  // Of the choice in a section, beside keys of the section's own; and in its short form.
  CHECK(wall_problems(written({{"picture", "poster"},
                               {"frame", Given{{"name", "circel"}, {"diameter", 1.0}, {"width", 1.0}}}})) ==
        Texts{"wall.json:4: frame.name: expected one of square, circle, got \"circel\"; did you mean "
              "\"circle\"?"});
  CHECK(
      wall_problems(written({{"picture", "poster"}, {"frame", "circel"}})) ==
      Texts{"wall.json:3: frame: expected one of square, circle, got \"circel\"; did you mean \"circle\"?"});
  // A section without a short form is an object.
  CHECK(wall_problems(written({{"frame", "oak"}})) ==
        Texts{"wall.json:2: frame: expected object, got \"oak\""});
  CHECK(wall_problems(written({{"frame", Value()}})) ==
        Texts{"wall.json:2: frame: expected object, got null"});
}

TEST_CASE("keys of a section that a lower layer gave for another variant go", "[options]") {
  const auto laid_over = [](Given below, Given above) {
    Value root = written(std::move(below), Layer::base);
    merge(root, written(std::move(above), Layer::command_line));
    return root;
  };
  Value root =
      laid_over({{"frame", Given{{"wood", "ash"}, {"width", 2.0}}}, {"corner", Given{{"radius", 1.0}}}},
                {{"picture", "poster"}, {"frame", Given{{"name", "circle"}}}});
  CHECK(validate(Wall::schema(), root).empty());
  CHECK(to_string(root) == R"({"frame":{"width":2.0,"name":"circle"},"picture":"poster"})");
  Wall wall;
  store_options(Wall::schema(), &wall, root);
  CHECK(wall.frame.width == 2.0);
  CHECK(wall.picture.as<Poster>().frame.shape.name() == "circle");
  // What is no key of any variant stays a mistake, and so does what was written beside the name or above it.
  CHECK(wall_problems(laid_over({{"frame", Given{{"wod", "ash"}}}}, {{"picture", "plain"}})).size() == 1);
  CHECK(wall_problems(laid_over({}, {{"picture", "plain"}, {"frame", Given{{"wood", "ash"}}}})) ==
        Texts{"command line: frame.wood: no key of \"plain\"; it belongs to painting"});
  CHECK(wall_problems(laid_over({{"picture", "plain"}}, {{"frame", Given{{"wood", "ash"}}}})) ==
        Texts{"command line: frame.wood: no key of \"plain\"; it belongs to painting"});
}

TEST_CASE("defaults of a section are listed with those who have them", "[options]") {
  const auto defaults_of = [](const std::string& variant) {
    Texts rows;
    for (const auto& [path, key, only_for] : list_keys(Wall::schema(), variant))
      if (path.starts_with("frame.") && path.find("[]") == std::string::npos)
        rows.push_back(path + " " + (key->required ? "required" : to_string(key->default_value)));
    return rows;
  };
  CHECK(defaults_of("painting") == Texts{"frame.width 3.0", "frame.wood \"oak\""});
  CHECK(defaults_of("plain") == Texts{"frame.width 3.0"});
  CHECK(defaults_of("poster") == Texts{"frame.name \"square\"", "frame.width 3.0", "frame.pins 4",
                                       "frame.side 1.0", "frame.side 2.0", "frame.angle 45.0",
                                       "frame.count 3", "frame.colour \"green\"", "frame.offset [1,2]",
                                       "frame.corners []", "frame.diameter 1.0"});
  const Key& frame = *Wall::schema().find("frame", "poster");
  CHECK(frame.required);
  CHECK_FALSE(Wall::schema().find("frame", "painting")->required);
  CHECK(Wall::schema().find("frame", "painting")->default_value ==
        Value(Given{{"width", 3.0}, {"wood", "oak"}}));
}

namespace {

// A section with a short form of its own.
struct Short {
  struct Frame {
    std::string wood = "oak";
    static const Schema& schema() {
      static const Schema schema =
          Describe<Frame>().key("wood", &Frame::wood, "it is made of").short_key("wood");
      return schema;
    }
  };
  Frame frame;
  Choice<pictures> picture;
};

// One that describes a key that a variant has there, too.
struct Twice {
  Painting::Frame frame;
  Choice<pictures> picture;
};

template <class T>
Schema with_section() {
  return Describe<T>().choice(&T::picture).section("frame", &T::frame, "around it").options_of(&T::picture);
}

}  // namespace

TEST_CASE("sections that cannot be joined are bugs", "[options]") {
  CHECK_NOTHROW(with_section<Wall>());
  CHECK_THROWS_AS(with_section<Short>(), InternalError);
  CHECK_THROWS_WITH(with_section<Twice>(), Contains("the key wood is described twice"));
  CHECK_THROWS_WITH(Schema(Describe<Wall>()
                               .choice(&Wall::picture)
                               .key("frame", &Wall::frame, "not as a section")
                               .options_of(&Wall::picture)),
                    Contains("the key frame is described twice"));
}

TEST_CASE("entries are added until the first use, each name once", "[options]") {
  const auto plain = [](const char* name, int value) {
    return Pictures::entry<Plain>(name, "added", Describe<Plain>(), [value](const Plain&) { return value; });
  };
  Pictures own({.what = "picture", .help = "what hangs there"}, {plain("first", 1)});
  bool made = false;
  own.add([&] {
    made = true;
    return plain("second", 2);
  });
  own.add([&] { return std::vector{plain("third", 3), plain("fourth", 4)}; });
  CHECK_FALSE(made);  // what its schema names may still be added
  CHECK(own.names() == std::vector<std::string>{"first", "second", "third", "fourth"});
  CHECK(made);
  CHECK(own.make("third", {}) == 3);
  CHECK(own.schema().find("name")->type.choices == own.names());
  CHECK_THROWS_WITH(own.add(plain("fifth", 5)),
                    "[picture] \"fifth\" is added after the first use, when keys and help already list every "
                    "picture; add it at the start of the program");
  Pictures twice({.what = "picture", .help = "what hangs there"}, {plain("first", 1), plain("first", 2)});
  CHECK_THROWS_WITH(twice.names(), "[picture] \"first\" is added twice; give one of the two another name");
}

}  // namespace tandem::test
