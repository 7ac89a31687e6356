// Sections of a whole in which its variants have keys, too, and registries that take entries until their
// first use.
#include <fmt/ranges.h>

#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "core/error.h"
#include "core/options/check.h"
#include "core/options/registry.h"
#include "tests/core/described_shapes.h"

namespace tandem::test {

namespace {

using namespace options;
using Catch::Contains;

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
