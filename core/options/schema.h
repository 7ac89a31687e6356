// The description of options: every key with name, type, range, default and one line of help, said once,
// where the option is used. Validation, `tandem ls keys`, the JSON Schema and docs/configuration.md all read
// it; binding to plain structs comes with it, and so do the defaults, which are the structs' own.
//
//   struct SgdOptions { double momentum = 0.0; bool nesterov = false; };
//   Schema schema = Describe<SgdOptions>()
//       .key("momentum", &SgdOptions::momentum, "share of the last update kept", {.min = 0, .max = 1})
//       .key("nesterov", &SgdOptions::nesterov, "look ahead along the momentum");
//
// A struct that is a member of another takes part by having `static const Schema& schema()`. Several things
// that one key names, each with options of its own, are a Registry (core/options/registry.h).
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

// Special members of what every description makes and destroys are out of line: they are called from hundreds
// of places.
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
    numbers,  // a number, or a list of at most max_count of them
    string,
    list,
    object,
    map,
    any
  };
  Kind kind = Kind::any;
  bool nullable = false;
  std::string keyword;  // a word that is accepted besides, such as "auto"
  std::optional<double> min, max;
  bool open_min = false, open_max = false;  // the bound itself is excluded
  std::vector<std::string> choices;         // of a string; empty: any
  std::vector<std::string> meanings;        // of the choices, one line each, where they have one
  std::shared_ptr<const Type> item;         // of a list or a map
  bool single = false;                      // of a list: an item alone stands for it, none does not
  const Schema* schema = nullptr;           // of an object
  std::shared_ptr<const Schema> joined;     // keeps that of a joined section (Describe::section)
  std::size_t max_count = 1;                // of numbers
  bool whole = false;                       // of numbers: integers only

  // "integer ≥ 1", "one of sgd, adam", "list of number, or null"
  std::string text() const;
  // "must lie in [0, 1), is 1.5": of a number that is out of range.
  std::string broken_range(double number) const;
  bool in_range(double number) const;
};

// Called with the objects inside of one, and their paths below it.
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
  std::vector<std::string> only_for;  // values of the discriminator that have this key; empty: all
  // A value that has passed `type`; null for the keyword, which puts the default back.
  std::function<void(void* object, const Value&)> store;
  std::function<Value(const void* object)> load;
  // Absent where the value holds no described object.
  std::function<void(const void* object, const std::string& path, const VisitObject&)> visit;
  Value default_value;
  bool section = false;  // an object in which variants of a choice may have keys of their own

  bool belongs_to(std::string_view name) const;
};

// What several keys must satisfy together, or one beyond its type.
struct CrossRule {
  std::string key;                                           // that a complaint names; "": the object
  std::function<std::string(const void* object)> complaint;  // "" when it holds
};

// A value whose type is known where it is used.
class Record {
 public:
  Record() = default;
  template <class T>
  requires(!std::same_as<T, Record>) explicit Record(T value)
      : kind_(&kKind<T>), data_(new T(std::move(value))) {}
  // A T as its initialisers say.
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
  std::string short_key;                 // "x" stands for {short_key: "x"} when not empty
  std::map<std::string, Value> presets;  // "x" stands for presets["x"]
  std::function<Record()> make;

  // Keys may share a name as long as they belong to different variants; absent a variant, the first one.
  const Key* find(std::string_view name) const;
  const Key* find(std::string_view name, std::string_view variant) const;
};

// What a value must satisfy beyond its type, and what it is when not given.
struct Rule {
  ~Rule();

  std::optional<double> min = {}, max = {};
  bool open_min = false, open_max = false;
  std::vector<std::string> choices = {};
  std::vector<std::string> only_for = {};
  // Accepted besides. Of an optional it means none; of anything else, and with a fallback, the default.
  std::string keyword = {};
  bool required = false;
  std::optional<Value> fallback = {};  // what an optional that holds nothing stands for, and is shown as
};

// How a C++ type appears among options. Values given to `store` have passed `type`. Where it holds described
// objects, `visit` shows them.
template <class T>
struct Binding;
template <class T>
concept HoldsObjects = requires(const T& value, const std::string& path, const VisitObject& visitor) {
  Binding<T>::visit(value, path, visitor);
};

// Stores what `value` says into the members of `object`, which keeps its defaults elsewhere.
void store_options(const Schema& schema, void* object, const Value& value);
// The variant that an object is of, by its discriminator or that one's default; "" when there is none.
std::string variant_of(const Schema& schema, const Value& object);
// Every key that applies, with the value of `object`, in the order of the schema.
Value load_options(const Schema& schema, const void* object);

namespace detail {
Type ranged(Type::Kind kind, const Rule& rule);
// Keys and rules of the member at `offset` bytes, seen from the object around it.
Key of_member(const Key& key, std::ptrdiff_t offset);
std::vector<CrossRule> of_member(const std::vector<CrossRule>& rules, std::ptrdiff_t offset);

// Makes one key of a section and of an object that a variant calls by the same name.
void join_sections(Schema& schema);
// Throws InternalError when two keys of one variant share a name.
void require_unique(const Schema& schema);

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

// Binding<M> without its type: of a member, the address.
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

// What Describe does whatever it describes: a template of it would be compiled for every struct.
class Description {
 public:
  explicit Description(Record (*fresh)());

  void key(std::string_view name, const MemberBinding& member, std::ptrdiff_t offset, std::string_view help,
           const Rule& rule);
  // Of the described member at `offset`.
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
  std::shared_ptr<const Record> defaults_;  // an object as its initialisers say
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
  // A described struct in whose object the variants of a choice may have keys of their own: where one has an
  // object of the same name, what the file writes there goes to the two structs, to each its keys.
  template <class M>
  Describe& section(std::string_view name, M T::*member, std::string_view help, const Rule& rule = {}) {
    key(name, member, help, rule);
    all_.schema().keys.back().section = true;
    return *this;
  }
  // The keys of a described member, at this level.
  template <class M>
  Describe& include(M T::*member) {
    all_.include(M::schema(), offset(member));
    return *this;
  }
  // Of a Choice (core/options/registry.h), at this level: the key that names the variant, which must come
  // first; the keys of all variants.
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
  // `holds(const T&)` is true of a sound object; `what` completes "KEY …".
  template <class Holds>
  Describe& rule(std::string_view key, std::string_view what, Holds holds) {
    all_.rule(key, what, [holds = std::move(holds)](const void* object) -> bool {
      return holds(*static_cast<const T*>(object));
    });
    return *this;
  }
  // `complaint(const T&)` is "" of a sound object.
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

// ---- bindings

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

// The words of an enum, in the order of its values from 0:
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

// A number for all, or a list of as many.
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

// Any value; checked by whoever reads it.
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
  // A keyword reaches `store` as null (see store_options).
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
  // An object starts from its own defaults, whatever it is a default of.
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
