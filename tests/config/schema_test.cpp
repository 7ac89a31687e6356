// The schema's consistency, and random mistakes.
#include <cstring>
#include <random>
#include <set>

#include "config/describe.h"
#include "config/load.h"
#include "config/reader.h"
#include "data/registry.h"
#include "models/registry.h"
#include "optim/registry.h"
#include "optim/schedules.h"
#include "tasks/classification/loss.h"
#include "tests/support/temporary_files.h"

using namespace tandem;
using namespace tandem::config;
using testing::user_error_of;

namespace {

const Schema& root() { return Config::schema(); }

// Values of every JSON type; those that a type accepts are skipped by the caller.
const std::vector<Json> kSamples = {
    nullptr, true, -7, 3, 1e300, -1e300, "no such word", Json::array({"x"}), Json{{"x", 1}}};

bool accepts(const Type& type, const Json& json) {
  using Kind = Type::Kind;
  if (type.kind == Kind::any) return true;
  if (json.is_null()) return type.nullable;
  const auto in_range = [&](double x) {
    return !(type.min && (x < *type.min || (type.open_min && x == *type.min))) &&
           !(type.max && (x > *type.max || (type.open_max && x == *type.max)));
  };
  switch (type.kind) {
    case Kind::boolean:
      return json.is_boolean();
    case Kind::integer:
      return json.is_number() && json.get<double>() == std::floor(json.get<double>()) &&
             std::abs(json.get<double>()) < 0x1p53 && in_range(json.get<double>());
    case Kind::number:
      return json.is_number() && in_range(json.get<double>());
    case Kind::numbers:
      return json.is_number() && (!type.whole || json.is_number_integer()) && in_range(json.get<double>());
    case Kind::string:
      return json.is_string() && type.choices.empty();
    case Kind::list:
      return json.is_array() ? accepts(*type.item, json[0]) : type.single && accepts(*type.item, json);
    case Kind::map:
      return json.is_object() && accepts(*type.item, json.begin().value());
    case Kind::object:
      return !json.is_object() && !type.schema->short_key.empty() &&
             accepts(type.schema->find(type.schema->short_key)->type, json);
    case Kind::any:
      break;
  }
  return true;
}

// An object of the schema in which `key` exists and everything that is required is given.
Json object_with(const Schema& schema, const Key& key, const Json& value) {
  Json object = Json::object();
  const std::string variant = key.only_for.empty() ? "" : key.only_for.front();
  for (const Key& other : schema.keys) {
    if (!other.required || other.name == key.name || !other.belongs_to(variant)) continue;
    if (!other.type.choices.empty()) {
      object[other.name] = other.type.choices.front();
    } else if (other.type.kind == Type::Kind::integer) {
      object[other.name] = 1;
    } else if (other.type.kind == Type::Kind::list) {
      object[other.name] = Json::array();
    } else {
      object[other.name] = "x";
    }
  }
  if (!variant.empty()) object[schema.discriminator] = variant;
  object[key.name] = value;
  return object;
}

int check_negatives(const Schema& schema, std::set<const Schema*>& seen) {
  if (!seen.insert(&schema).second) return 0;
  int checked = 0;
  for (const Key& key : schema.keys) {
    if (key.name == schema.discriminator && key.only_for.empty() && key.type.choices.empty()) continue;
    for (const Json& sample : kSamples) {
      if (accepts(key.type, sample)) continue;
      Value object = from_json(object_with(schema, key, sample), {});
      const auto problems = validate(schema, object);
      INFO(key.name << " = " << sample.dump());
      CHECK(std::any_of(problems.begin(), problems.end(),
                        [&](const Problem& problem) { return problem.path.starts_with(key.name); }));
      ++checked;
    }
    Type type = key.type;
    while (type.item) type = *type.item;
    if (type.schema) checked += check_negatives(*type.schema, seen);
  }
  Value unknown = from_json(Json{{"qqqq", 1}}, {});
  const auto problems = validate(schema, unknown);
  CHECK(std::any_of(problems.begin(), problems.end(),
                    [](const Problem& problem) { return problem.path == "qqqq"; }));
  return checked;
}

constexpr const char* kTwin = "zq-twin";  // stands for a key that is there already

// A small random change of a configuration's text or tree.
std::string mutated(const Json& original, std::mt19937& random) {
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  if (random() % 3 == 0) {  // of the text
    std::string text = original.dump(1);
    for (std::size_t i = 0; i <= below(3); ++i) {
      const std::size_t at = below(text.size());
      switch (random() % 4) {
        case 0:
          text.erase(at, 1 + below(4));
          break;
        case 1:
          text.insert(at, 1, static_cast<char>(random() % 256));
          break;
        case 2:
          text[at] = static_cast<char>(random() % 256);
          break;
        default:
          text.insert(at, text.substr(below(text.size()), 1 + below(30)));
      }
    }
    return text;
  }
  Json json = original;  // of the tree
  Json* at = &json;
  while (at->is_structured() && !at->empty() && random() % 4 != 0) {
    auto next = at->begin();
    std::advance(next, static_cast<std::ptrdiff_t>(below(at->size())));
    at = &*next;
  }
  if (at->is_object() && !at->empty() && random() % 4 == 0) {
    auto twin = at->begin();
    std::advance(twin, static_cast<std::ptrdiff_t>(below(at->size())));
    const std::string key = Json(twin.key()).dump();
    (*at)[kTwin] = Json(twin.value());
    std::string text = json.dump();
    return text.replace(text.find(Json(kTwin).dump()), std::strlen(kTwin) + 2, key);
  }
  if (at->is_object() && random() % 2 == 0) {
    (*at)["zq" + std::to_string(below(100))] = 1;  // unknown wherever it stands
  } else {
    *at = kSamples[below(kSamples.size())];
  }
  return json.dump();
}

// Keys in the text, those that stand twice counted twice; -1 when the parser refuses it.
int keys_in(const std::string& text) {
  int count = 0;
  const auto follow = [&](int, Json::parse_event_t event, Json&) {
    count += event == Json::parse_event_t::key;
    return true;
  };
  return Json::parse(text, follow, false, true).is_discarded() ? -1 : count;
}

int keys_of(const Value& value) {
  int count = static_cast<int>(value.members.size());
  for (const auto& member : value.members) count += keys_of(member.value);
  for (const Value& item : value.items) count += keys_of(item);
  return count;
}

bool has_unknown_key(const Json& json) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items())
      if (key.starts_with("zq") || has_unknown_key(value)) return true;
  }
  return json.is_array() && std::any_of(json.begin(), json.end(), has_unknown_key);
}

}  // namespace

TEST_CASE("every key refuses what its type refuses", "[schema]") {
  std::set<const Schema*> seen;
  CHECK(check_negatives(root(), seen) > 500);
}

TEST_CASE("every key has one line of help and a name of its own", "[schema]") {
  std::set<std::string> unique;
  for (const auto& [path, key, only_for] : list_keys(root())) {
    INFO(path);
    CHECK_FALSE(key->help.empty());
    CHECK(key->help.find('\n') == std::string::npos);
    std::string id = path;
    for (const auto& owner : only_for) CHECK(unique.insert(path + "/" + owner).second);
    if (only_for.empty()) CHECK(unique.insert(path).second);
  }
}

TEST_CASE("defaults pass their own types", "[schema]") {
  for (const auto& [path, key, only_for] : list_keys(root())) {
    if (key->required || key->default_value.is(Value::Kind::null) || key->type.kind == Type::Kind::object)
      continue;
    INFO(path << " = " << to_string(key->default_value));
    Schema only;
    only.discriminator = "";
    only.keys.push_back(*key);
    only.keys.back().only_for.clear();
    Value object = from_json(Json{{key->name, to_json(key->default_value)}}, {});
    CHECK(validate(only, object).empty());
  }
}

TEST_CASE("the keys of optimizers and schedules are those of the library", "[schema]") {
  const auto keys_of = [](const Schema& schema, const std::string& name) {
    std::set<std::string> keys;
    for (const Key& key : schema.keys)
      if (key.belongs_to(name)) keys.insert(key.name);
    return keys;
  };
  const Schema& optimizer = *root().find("optimizer")->type.schema;
  const Schema& schedule = *root().find("schedule")->type.schema;
  for (const auto& entry : optim::optimizers().entries()) {
    INFO(entry.name);
    std::set<std::string> own = keys_of(entry.schema, "");
    own.insert("name");
    CHECK(keys_of(optimizer, entry.name) == own);
    CHECK(own.size() >= 5);
  }
  CHECK(optimizer.find("name")->type.choices == optim::optimizers().names());
  CHECK(schedule.find("name")->type.choices == optim::schedules().names());
  CHECK(root().find("data")->type.schema->find("name")->type.choices == datasets::labelled_sets().names());
  CHECK(root().find("model")->type.schema->find("name")->type.choices == models::registry().names());
  CHECK(root().find("loss")->type.schema->find("name")->type.choices ==
        tasks::classification_losses().names());
}

TEST_CASE("10,000 mutations of shipped configurations: no unknown and no double key is accepted",
          "[schema]") {
  std::vector<Json> originals;
  for (const auto& file : testing::shipped_files()) originals.push_back(to_json(load(file.string()).given));
  REQUIRE(originals.size() >= 6);
  std::mt19937 random(7);
  const testing::TemporaryDirectory directory;
  int refused = 0, twins = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = mutated(originals[random() % originals.size()], random);
    Origin origin;
    origin.layer = Layer::file;
    origin.source = std::make_shared<const std::string>("m.json");
    std::string error;
    try {
      Value value = parse(text, origin);
      const auto problems = validate(root(), value);
      if (!problems.empty()) {
        error = problems.front().text();
      } else {
        const Config config = load(directory.write("m.json", text)).config;
        INFO(text);
        CHECK_FALSE(has_unknown_key(to_json(value)));
        CHECK(keys_of(value) == keys_in(text));
        CHECK_FALSE(resolved(config).empty());
      }
    } catch (const UserError& user_error) {
      error = user_error.what();
    }
    if (error.empty()) continue;
    ++refused;
    INFO(error);
    twins += error.find("duplicate key") != std::string::npos;
    CHECK(error.find("m.json:") != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  }
  CHECK(refused > 5000);
  CHECK(twins > 500);
}

TEST_CASE("the JSON Schema has every key", "[schema]") {
  const Json schema = keys_as_json_schema(root());
  CHECK(schema["properties"]["data"].dump().find("batch_size") != std::string::npos);
  CHECK(schema["additionalProperties"] == false);
  for (const Key& key : root().keys) CHECK(schema["properties"].contains(key.name));
  // An infinite bound is none: JSON would say null.
  for (const char* bound : {"\"minimum\":null", "\"maximum\":null"})
    CHECK(schema.dump().find(bound) == std::string::npos);
  for (const auto& [path, key, only_for] : list_keys(root()))
    CHECK(keys_as_text(root()).find(path) != std::string::npos);
}
