// Schema: the description of a configuration object, written once. Validation, `tandem ls keys`, the JSON
// Schema and docs/configuration.md all read it; binding to plain structs comes with it, and so do the
// defaults, which are the structs' own.
//
// A struct T takes part by having `static const Schema& schema()`, built with Describe<T>.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/value.h"

namespace tandem::config {

using Json = nlohmann::ordered_json;

struct Schema;

struct Type {
  enum class Kind : std::uint8_t {
    boolean,
    integer,
    number,
    numbers,  // a number, or a list of at most max_count of them
    string,
    list,
    object,
    map,
    any
  };
  Kind kind = Kind::any;
  bool nullable = false;
  std::string keyword;  // a word that stands for "no value", such as "auto"
  std::optional<double> min, max;
  bool open_min = false, open_max = false;  // the bound itself is excluded
  std::vector<std::string> choices;         // of a string; empty: any
  std::shared_ptr<const Type> item;         // of a list or a map
  const Schema* schema = nullptr;           // of an object
  std::size_t max_count = 1;                // of numbers
  bool whole = false;                       // of numbers: integers only

  // "integer ≥ 1", "one of sgd, adam", "list of number, or null"
  std::string text() const;
};

struct Key {
  std::string name;
  Type type;
  std::string help;  // one line
  bool required = false;
  std::vector<std::string> only_for;  // values of the discriminator that have this key; empty: all
  std::function<void(void* object, const Value&)> store;
  std::function<Json(const void* object)> load;
  Json default_value;

  bool belongs_to(std::string_view name) const;
};

struct Schema {
  std::vector<Key> keys;
  std::string discriminator = "name";   // the key whose value decides which others belong
  std::string short_key;                // "x" stands for {short_key: "x"} when not empty
  std::map<std::string, Json> presets;  // "x" stands for presets["x"]
  std::function<std::unique_ptr<void, void (*)(void*)>()> make;

  // Keys may share a name as long as they belong to different variants; absent a variant, the first one.
  const Key* find(std::string_view name) const;
  const Key* find(std::string_view name, std::string_view variant) const;
};

// What a value must satisfy beyond its type.
struct Rule {
  std::optional<double> min = {}, max = {};
  bool open_min = false, open_max = false;
  std::vector<std::string> choices = {};
  std::vector<std::string> only_for = {};
  std::string keyword = {};
  bool required = false;
};

// How a C++ type appears in JSON. Values given to `store` have passed `type`.
template <class T>
struct Binding;

// Stores what `value` says into the members of `object`, which keeps its defaults elsewhere.
void bind(const Schema& schema, void* object, const Value& value);
// Every key that applies, with the value of `object`, in the order of the schema.
Json unbind(const Schema& schema, const void* object);

template <class T>
class Describe {
 public:
  Describe() {
    schema_.make = [] {
      return std::unique_ptr<void, void (*)(void*)>(new T, [](void* t) { delete static_cast<T*>(t); });
    };
  }

  template <class M>
  Describe& key(std::string name, M T::*member, std::string help, Rule rule = {}) {
    Key key;
    key.name = std::move(name);
    key.help = std::move(help);
    key.type = Binding<M>::type(rule);
    key.required = rule.required;
    key.only_for = std::move(rule.only_for);
    key.store = [member](void* object, const Value& value) {
      Binding<M>::store(static_cast<T*>(object)->*member, value);
    };
    key.load = [member](const void* object) {
      return Binding<M>::load(static_cast<const T*>(object)->*member);
    };
    if (!key.required) key.default_value = key.load(defaults_.get());
    schema_.keys.push_back(std::move(key));
    return *this;
  }
  Describe& short_key(std::string name) {
    schema_.short_key = std::move(name);
    return *this;
  }
  Describe& preset(std::string name, Json object) {
    schema_.presets.emplace(std::move(name), std::move(object));
    return *this;
  }
  operator Schema() { return std::move(schema_); }

 private:
  Schema schema_;
  std::unique_ptr<T> defaults_ = std::make_unique<T>();
};

// ---- bindings

namespace detail {
Type ranged(Type::Kind kind, const Rule& rule);
}

template <>
struct Binding<bool> {
  static Type type(const Rule& rule) { return detail::ranged(Type::Kind::boolean, rule); }
  static void store(bool& to, const Value& value) { to = value.boolean; }
  static Json load(bool from) { return from; }
};

template <class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) struct Binding<T> {
  static Type type(const Rule& rule) {
    Type type = detail::ranged(Type::Kind::integer, rule);
    if (!type.max && sizeof(T) < sizeof(std::int64_t))
      type.max = static_cast<double>(std::numeric_limits<T>::max());
    if (!type.min && sizeof(T) < sizeof(std::int64_t))
      type.min = static_cast<double>(std::numeric_limits<T>::min());
    return type;
  }
  static void store(T& to, const Value& value) {
    to = value.is(Value::Kind::integer) ? static_cast<T>(value.integer) : static_cast<T>(value.number);
  }
  static Json load(T from) { return static_cast<std::int64_t>(from); }
};

template <>
struct Binding<double> {
  static Type type(const Rule& rule) { return detail::ranged(Type::Kind::number, rule); }
  static void store(double& to, const Value& value) { to = value.number; }
  static Json load(double from) { return from; }
};

template <>
struct Binding<std::string> {
  static Type type(const Rule& rule) { return detail::ranged(Type::Kind::string, rule); }
  static void store(std::string& to, const Value& value) { to = value.text; }
  static Json load(const std::string& from) { return from; }
};

// Any JSON; checked by whoever reads it.
template <>
struct Binding<Json> {
  static Type type(const Rule& rule) { return detail::ranged(Type::Kind::any, rule); }
  static void store(Json& to, const Value& value) { to = to_json(value); }
  static Json load(const Json& from) { return from; }
};

template <class T>
struct Binding<std::optional<T>> {
  static Type type(const Rule& rule) {
    Type type = Binding<T>::type(rule);
    type.keyword = rule.keyword;
    type.nullable = rule.keyword.empty();
    return type;
  }
  // A keyword reaches `store` as null (see bind).
  static void store(std::optional<T>& to, const Value& value) {
    if (value.is(Value::Kind::null)) {
      to.reset();
    } else {
      to.emplace();
      Binding<T>::store(*to, value);
    }
  }
  static Json load(const std::optional<T>& from) { return from ? Binding<T>::load(*from) : Json(); }
};

template <class T>
struct Binding<std::vector<T>> {
  static Type type(const Rule& rule) {
    Type type;
    type.kind = Type::Kind::list;
    type.item = std::make_shared<const Type>(Binding<T>::type(rule));
    return type;
  }
  static void store(std::vector<T>& to, const Value& value) {
    to.clear();
    for (const Value& item : value.items) Binding<T>::store(to.emplace_back(), item);
  }
  static Json load(const std::vector<T>& from) {
    Json list = Json::array();
    for (const T& item : from) list.push_back(Binding<T>::load(item));
    return list;
  }
};

// An object with keys of the user's choosing; order kept.
template <class T>
struct Binding<std::vector<std::pair<std::string, T>>> {
  static Type type(const Rule& rule) {
    Type type;
    type.kind = Type::Kind::map;
    type.item = std::make_shared<const Type>(Binding<T>::type(rule));
    return type;
  }
  static void store(std::vector<std::pair<std::string, T>>& to, const Value& value) {
    to.clear();
    for (const auto& [key, member] : value.members) {
      to.emplace_back(key, T{});
      Binding<T>::store(to.back().second, member);
    }
  }
  static Json load(const std::vector<std::pair<std::string, T>>& from) {
    Json object = Json::object();
    for (const auto& [key, member] : from) object[key] = Binding<T>::load(member);
    return object;
  }
};

template <class T>
requires requires { T::schema(); }
struct Binding<T> {
  static Type type(const Rule&) {
    Type type;
    type.kind = Type::Kind::object;
    type.schema = &T::schema();
    return type;
  }
  // An object starts from its own defaults, whatever it is a default of.
  static void store(T& to, const Value& value) {
    to = T{};
    bind(T::schema(), &to, value);
  }
  static Json load(const T& from) { return unbind(T::schema(), &from); }
};

}  // namespace tandem::config
