// Schema: the description of options: name, type, range, default and one line of help of every key, defined
// where the option is used. Validation, `tandem ls keys`, the JSON Schema and docs/configuration.md use it,
// and so does the binding to plain structs, whose initialisers are the defaults.
//
//   struct SgdOptions { double momentum = 0.0; bool nesterov = false; };
//   Schema schema = Describe<SgdOptions>()
//       .key("momentum", &SgdOptions::momentum, "share of the last update kept", {.min = 0, .max = 1})
//       .key("nesterov", &SgdOptions::nesterov, "look ahead along the momentum");
//
// A struct that is a member of another defines `static const Schema& schema()`. Alternatives of one key with
// their own options are a Registry (core/options/registry.h).
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "core/options/value.h"

namespace tandem::options {

struct Schema;

// Special members of types in every description are out of line, because hundreds of places call them.
struct Type {
  Type();
  Type(const Type&);
  Type(Type&&) noexcept;
  Type& operator=(const Type&);
  Type& operator=(Type&&) noexcept;
  ~Type();

  enum class Kind : std::uint8_t {
    boolean,
    integer,
    number,
    numbers,  // a number, or a list of up to max_count
    string,
    list,
    object,
    map,
    any
  };
  Kind kind = Kind::any;
  bool nullable = false;
  std::string keyword;  // additional keyword, such as "auto"
  std::optional<double> min, max;
  bool open_min = false, open_max = false;  // excludes the bound itself
  std::vector<std::string> choices;         // of a string; empty: any
  std::vector<std::string> meanings;        // one line for each choice, or none
  std::shared_ptr<const Type> item;         // of a list or a map
  bool single = false;                      // of a list: a single item is accepted, an empty list is not
  const Schema* schema = nullptr;           // of an object
  std::shared_ptr<const Schema> joined;     // owns the schema of a joined section (Describe::section)
  std::size_t max_count = 1;                // of numbers
  bool whole = false;                       // of numbers: integers only

  // "integer ≥ 1", "one of sgd, adam", "list of number, or null"
  std::string text() const;
  // "must lie in [0, 1), is 1.5", for a number out of range.
  std::string broken_range(double number) const;
  bool in_range(double number) const;
};

// Called with nested objects and their paths.
using VisitObject = std::function<void(const std::string& path, const Schema& schema, const void* object)>;

struct Key {
  Key();
  Key(const Key&);
  Key(Key&&) noexcept;
  Key& operator=(const Key&);
  Key& operator=(Key&&) noexcept;
  ~Key();

  std::string name;
  Type type;
  std::string help;  // one line
  bool required = false;
  std::vector<std::string> only_for;  // variants that have this key; empty: all
  // A value that has passed `type`; null for the keyword, which restores the default.
  std::function<void(void* object, const Value&)> store;
  std::function<Value(const void* object)> load;
  // Absent if the value holds no described object.
  std::function<void(const void* object, const std::string& path, const VisitObject&)> visit;
  Value default_value;
  bool section = false;  // an object to which variants of a choice may add keys

  bool belongs_to(std::string_view name) const;
};

// A rule on several keys, or on one beyond its type.
struct CrossRule {
  std::string key;                                           // the key to blame; "": the object
  std::function<std::string(const void* object)> complaint;  // "" when it holds
};

// A type-erased value.
class Record {
 public:
  Record() = default;
  template <class T>
  requires(!std::same_as<T, Record>) explicit Record(T value)
      : kind_(&kKind<T>), data_(new T(std::move(value))) {}
  // A default-initialised T.
  template <class T>
  static Record fresh() {
    Record record;
    record.kind_ = &kKind<T>;
    record.data_ = new T();
    return record;
  }
  Record(const Record& other);
  Record(Record&& other) noexcept;
  Record& operator=(Record other) noexcept;
  ~Record();

  void* data() { return data_; }
  const void* data() const { return data_; }
  const std::type_info& type() const { return kind_ ? *kind_->type : typeid(void); }

 private:
  struct Kind {
    const std::type_info* type;
    void* (*clone)(const void*);
    void (*destroy)(void*);
  };
  template <class T>
  static constexpr Kind kKind{&typeid(T),
                              [](const void* from) -> void* { return new T(*static_cast<const T*>(from)); },
                              [](void* data) { delete static_cast<T*>(data); }};

  const Kind* kind_ = nullptr;
  void* data_ = nullptr;
};

struct Schema {
  Schema();
  Schema(const Schema&);
  Schema(Schema&&) noexcept;
  Schema& operator=(const Schema&);
  Schema& operator=(Schema&&) noexcept;
  ~Schema();

  std::vector<Key> keys;
  std::vector<CrossRule> rules;
  std::string discriminator = "name";    // the key whose value decides which others belong
  std::string short_key;                 // if not empty, "x" means {short_key: "x"}
  std::map<std::string, Value> presets;  // "x" means presets["x"]
  std::function<Record()> make;

  // Keys of different variants may share a name; returns the first one.
  const Key* find(std::string_view name) const;
  const Key* find(std::string_view name, std::string_view variant) const;
};

// Constraints of a value beyond its type, and its default.
struct Rule {
  ~Rule();

  std::optional<double> min = {}, max = {};
  bool open_min = false, open_max = false;
  std::vector<std::string> choices = {};
  std::vector<std::string> only_for = {};
  // Accepted additionally. For an optional it means empty; otherwise, or with a fallback, the default.
  std::string keyword = {};
  bool required = false;
  std::optional<Value> fallback = {};  // shown and used for an empty optional
};

// Binding of a C++ type to options. Values given to `store` have passed `type`. `visit` shows described
// objects in it.
template <class T>
struct Binding;
template <class T>
concept HoldsObjects = requires(const T& value, const std::string& path, const VisitObject& visitor) {
  Binding<T>::visit(value, path, visitor);
};

// Stores `value` into the members of `object`, which otherwise keeps its defaults.
void store_options(const Schema& schema, void* object, const Value& value);
// The variant of an object, by its discriminator or that key's default; "" if there is none.
std::string variant_of(const Schema& schema, const Value& object);
// Every applicable key with its value in `object`, in the order of the schema.
Value load_options(const Schema& schema, const void* object);

namespace detail {
Type ranged(Type::Kind kind, const Rule& rule);
// Keys and rules of the member at `offset` bytes, as those of the enclosing object.
Key of_member(const Key& key, std::ptrdiff_t offset);
std::vector<CrossRule> of_member(const std::vector<CrossRule>& rules, std::ptrdiff_t offset);

// Merges a section with an object of the same name in a variant.
void join_sections(Schema& schema);
// Throws InternalError when two keys of one variant share a name.
void require_unique(const Schema& schema);

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

// Type-erased Binding<M>, with the member's address.
struct MemberBinding {
  Type (*type)(const Rule& rule);
  void (*store)(void* member, const Value& value);
  void (*assign)(void* member, const void* from);
  Value (*load)(const void* member);
  void (*visit)(const void* member, const std::string& path, const VisitObject& visitor);  // or nullptr
  bool optional;
};

template <class M>
constexpr auto visit_of() -> decltype(MemberBinding::visit) {
  if constexpr (HoldsObjects<M>) {
    return [](const void* member, const std::string& path, const VisitObject& visitor) {
      Binding<M>::visit(*static_cast<const M*>(member), path, visitor);
    };
  } else {
    return nullptr;
  }
}

template <class M>
constexpr MemberBinding kMember{
    [](const Rule& rule) { return Binding<M>::type(rule); },
    [](void* member, const Value& value) { Binding<M>::store(*static_cast<M*>(member), value); },
    [](void* member, const void* from) { *static_cast<M*>(member) = *static_cast<const M*>(from); },
    [](const void* member) -> Value { return Binding<M>::load(*static_cast<const M*>(member)); },
    visit_of<M>(),
    IsOptional<M>::value};

// The type-independent part of Describe, which would otherwise be compiled for every struct.
class Description {
 public:
  explicit Description(Record (*fresh)());

  void key(std::string_view name, const MemberBinding& member, std::ptrdiff_t offset, std::string_view help,
           const Rule& rule);
  // For the described member at `offset`.
  void include(const Schema& schema, std::ptrdiff_t offset);
  void choice(const Schema& schema, std::ptrdiff_t offset);
  void options_of(const Schema& schema, std::ptrdiff_t offset);
  void rule(std::string_view key, std::function<std::string(const void*)> complaint);
  void rule(std::string_view key, std::string_view what, std::function<bool(const void*)> holds);

  const void* defaults() const { return defaults_->data(); }
  Schema& schema() { return schema_; }
  Schema finished();

 private:
  Schema schema_;
  std::shared_ptr<const Record> defaults_;  // a default-initialised object
};
}  // namespace detail

template <class T>
class Describe {
 public:
  Describe() : all_(&Record::fresh<T>) {}

  template <class M>
  Describe& key(std::string_view name, M T::*member, std::string_view help, const Rule& rule = {}) {
    all_.key(name, detail::kMember<M>, offset(member), help, rule);
    return *this;
  }
  // A described struct to which variants of a choice may add keys: if one has an object of the same name, the
  // file's object is split between both structs.
  template <class M>
  Describe& section(std::string_view name, M T::*member, std::string_view help, const Rule& rule = {}) {
    key(name, member, help, rule);
    all_.schema().keys.back().section = true;
    return *this;
  }
  // Adds the keys of a described member at this level.
  template <class M>
  Describe& include(M T::*member) {
    all_.include(M::schema(), offset(member));
    return *this;
  }
  // Adds a Choice (core/options/registry.h) at this level: first the key that names the variant, then the
  // keys of all variants.
  template <class M>
  Describe& choice(M T::*member) {
    all_.choice(M::schema(), offset(member));
    return *this;
  }
  template <class M>
  Describe& options_of(M T::*member) {
    all_.options_of(M::schema(), offset(member));
    return *this;
  }
  // `holds(const T&)` is true for a valid object; `what` completes "KEY …".
  template <class Holds>
  Describe& rule(std::string_view key, std::string_view what, Holds holds) {
    all_.rule(key, what, [holds = std::move(holds)](const void* object) -> bool {
      return holds(*static_cast<const T*>(object));
    });
    return *this;
  }
  // `complaint(const T&)` is "" for a valid object.
  template <class Complaint>
  Describe& rule(std::string_view key, Complaint complaint) {
    all_.rule(key, [complaint = std::move(complaint)](const void* object) -> std::string {
      return complaint(*static_cast<const T*>(object));
    });
    return *this;
  }
  Describe& short_key(std::string name) {
    all_.schema().short_key = std::move(name);
    return *this;
  }
  Describe& preset(std::string name, Given object) {
    all_.schema().presets.emplace(std::move(name), Value(std::move(object)));
    return *this;
  }
  operator Schema() { return all_.finished(); }

 private:
  template <class M>
  std::ptrdiff_t offset(M T::*member) const {
    const auto* const object = static_cast<const T*>(all_.defaults());
    return reinterpret_cast<const char*>(&(object->*member)) - reinterpret_cast<const char*>(object);
  }

  detail::Description all_;
};

template <>
struct Binding<bool> {
  static Type type(const Rule& rule) { return detail::ranged(Type::Kind::boolean, rule); }
  static void store(bool& to, const Value& value) { to = value.boolean; }
  static Value load(bool from) { return from; }
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
  static Value load(T from) { return from; }
};

template <>
struct Binding<double> {
  static Type type(const Rule& rule) { return detail::ranged(Type::Kind::number, rule); }
  static void store(double& to, const Value& value) { to = value.number; }
  static Value load(double from) { return from; }
};

template <>
struct Binding<std::string> {
  static Type type(const Rule& rule) { return detail::ranged(Type::Kind::string, rule); }
  static void store(std::string& to, const Value& value) { to = value.text; }
  static Value load(const std::string& from) { return from; }
};

// Names of an enum's values, in order from 0:
//   template <> struct options::EnumNames<Unit> { static constexpr std::array values{"epochs", "steps"}; };
template <class E>
struct EnumNames;

template <class E>
requires std::is_enum_v<E>
struct Binding<E> {
  static Type type(Rule rule) {
    rule.choices.assign(EnumNames<E>::values.begin(), EnumNames<E>::values.end());
    return detail::ranged(Type::Kind::string, rule);
  }
  static void store(E& to, const Value& value) {
    for (std::size_t i = 0; i < EnumNames<E>::values.size(); ++i)
      if (value.text == EnumNames<E>::values[i]) to = static_cast<E>(i);
  }
  static Value load(E from) { return EnumNames<E>::values[static_cast<std::size_t>(from)]; }
};

// A number for all, or a list of numbers.
template <class T, std::size_t kCount>
requires std::is_arithmetic_v<T>
struct Binding<std::array<T, kCount>> {
  static Type type(const Rule& rule) {
    Type type = detail::ranged(Type::Kind::numbers, rule);
    type.max_count = kCount;
    type.whole = std::is_integral_v<T>;
    return type;
  }
  static void store(std::array<T, kCount>& to, const Value& value) {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (!value.is(Value::Kind::list)) {
        Binding<T>::store(to[i], value);
      } else if (i < value.items.size()) {
        Binding<T>::store(to[i], value.items[i]);
      }
    }
  }
  static Value load(const std::array<T, kCount>& from) { return std::vector<T>(from.begin(), from.end()); }
};

// Any value; its reader checks it.
template <>
struct Binding<Value> {
  static Type type(const Rule& rule) { return detail::ranged(Type::Kind::any, rule); }
  static void store(Value& to, const Value& value) { to = value; }
  static Value load(const Value& from) { return from; }
};

template <class T>
struct Binding<std::optional<T>> {
  static Type type(const Rule& rule) {
    Type type = Binding<T>::type(rule);
    type.keyword = rule.keyword;
    type.nullable = rule.keyword.empty();
    return type;
  }
  // `store` receives null for a keyword (see store_options).
  static void store(std::optional<T>& to, const Value& value) {
    if (value.is(Value::Kind::null)) {
      to.reset();
    } else {
      to.emplace();
      Binding<T>::store(*to, value);
    }
  }
  static Value load(const std::optional<T>& from) { return from ? Binding<T>::load(*from) : Value(); }
  static void visit(const std::optional<T>& from, const std::string& path,
                    const VisitObject& visitor) requires HoldsObjects<T> {
    if (from) Binding<T>::visit(*from, path, visitor);
  }
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
  static Value load(const std::vector<T>& from) {
    std::vector<Value> items;
    for (const T& item : from) items.push_back(Binding<T>::load(item));
    return items;
  }
  static void visit(const std::vector<T>& from, const std::string& path,
                    const VisitObject& visitor) requires HoldsObjects<T> {
    for (std::size_t i = 0; i < from.size(); ++i)
      Binding<T>::visit(from[i], joined(path, std::to_string(i)), visitor);
  }
};

// An object with arbitrary keys, in order.
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
  static Value load(const std::vector<std::pair<std::string, T>>& from) {
    Given members;
    for (const auto& [key, member] : from) members.push_back({key, Binding<T>::load(member)});
    return members;
  }
  static void visit(const std::vector<std::pair<std::string, T>>& from, const std::string& path,
                    const VisitObject& visitor) requires HoldsObjects<T> {
    for (const auto& [key, member] : from) Binding<T>::visit(member, joined(path, key), visitor);
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
  // Nested objects reset to T{} before assignment.
  static void store(T& to, const Value& value) {
    to = T{};
    store_options(T::schema(), &to, value);
  }
  static Value load(const T& from) { return load_options(T::schema(), &from); }
  static void visit(const T& from, const std::string& path, const VisitObject& visitor) {
    visitor(path, T::schema(), &from);
  }
};

}  // namespace tandem::options
