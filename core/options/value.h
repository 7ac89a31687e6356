// Value: a given option, as a tree like JSON with the origin of every value, so that messages can name file
// and line. Members keep the order of the file. Integers and numbers differ in notation (1 and 1.0).
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::options {

// A later layer overrides an earlier one.
enum class Layer : std::uint8_t { built_in, base, file, command_line };

struct Origin {
  Layer layer = Layer::built_in;
  int depth = 0;  // of nested bases: 0 is the file on the command line, -1 its base…
  std::shared_ptr<const std::string> source;  // the file as named by the user; absent for built-in values
  int line = 0;                               // 1-based; 0: none

  // "configs/a.json:12", "command line", "default"
  std::string place() const;
  // Whether this overrides `other`.
  bool above(const Origin& other) const;
};

struct Value {
  enum class Kind : std::uint8_t { null, boolean, integer, number, string, list, object };
  struct Member;

  Value();
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();
  template <std::same_as<bool> T>
  Value(T given) : kind(Kind::boolean), boolean(given) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Value(T given)
      : kind(Kind::integer), integer(static_cast<std::int64_t>(given)), number(static_cast<double>(given)) {}
  Value(double given);
  Value(std::string given);
  Value(const char* given);
  template <class T>
  Value(const std::vector<T>& given) : kind(Kind::list), items(given.begin(), given.end()) {}
  Value(std::vector<Member> given);  // an object

  Kind kind = Kind::null;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0.0;  // also set for integers
  std::string text;
  std::vector<Value> items;
  std::vector<Member> members;
  Origin origin;

  bool is(Kind other) const { return kind == other; }
  const Value* find(std::string_view key) const;  // nullptr if absent, or if this is not an object
  Value* find(std::string_view key);
  Value& set(std::string key, Value value);  // replaces in place or appends
  bool erase(std::string_view key);
  // Compares values, not origins.
  friend bool operator==(const Value& a, const Value& b);
};

struct Value::Member {
  std::string name;
  Value value;
};

// An object in C++ notation: {{"lr", 0.1}, {"nesterov", true}}.
using Given = std::vector<Value::Member>;

// "null", "boolean", "integer", "number", "string", "list", "object"
std::string_view name_of(Value::Kind kind);

// Compact JSON.
std::string to_string(const Value& value);
// The same, truncated to at most `limit` bytes with an ellipsis.
std::string excerpt(const Value& value, std::size_t limit = 40);

// Merges `over` into `under`: objects key by key; other values are replaced.
void merge(Value& under, Value over);

// "data" + "batch_size" → "data.batch_size"
std::string joined(const std::string& path, std::string_view key);

}  // namespace tandem::options
