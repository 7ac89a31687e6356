// Value: a JSON value that remembers where it came from, so that every later complaint can name file and
// line.
//
// Members keep the order of the file. Integers and numbers are told apart by how they were written (1
// and 1.0).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::config {

// A later layer overrides an earlier one.
enum class Layer : std::uint8_t { built_in, base, file, command_line };

struct Origin {
  Layer layer = Layer::built_in;
  int depth = 0;  // of nested bases: 0 is the file named on the command line, -1 its base…
  std::shared_ptr<const std::string>
      source;    // the file as the user would name it; absent for built-in values
  int line = 0;  // 1-based; 0 where there is none

  // "configs/a.json:12", "command line", "default"
  std::string place() const;
  // Whether this one was laid over `other`.
  bool above(const Origin& other) const;
};

struct Value {
  enum class Kind : std::uint8_t { null, boolean, integer, number, string, list, object };
  struct Member;

  Kind kind = Kind::null;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0.0;  // also set for integers
  std::string text;
  std::vector<Value> items;
  std::vector<Member> members;
  Origin origin;

  bool is(Kind other) const { return kind == other; }
  const Value* find(std::string_view key) const;  // nullptr when absent, or when this is no object
  Value* find(std::string_view key);
  Value& set(std::string key, Value value);  // replaces in place or appends
  bool erase(std::string_view key);
};

struct Value::Member {
  std::string name;
  Value value;
};

// "null", "boolean", "integer", "number", "string", "list", "object"
std::string_view name_of(Value::Kind kind);

// Compact JSON of at most `limit` bytes, cut with an ellipsis.
std::string excerpt(const Value& value, std::size_t limit = 40);

nlohmann::ordered_json to_json(const Value& value);
Value from_json(const nlohmann::ordered_json& json, const Origin& origin);

// Lays `over` on `under`: objects merge key by key, anything else replaces.
void merge(Value& under, Value over);

// "data" + "batch_size" → "data.batch_size"
std::string joined(const std::string& path, std::string_view key);

}  // namespace tandem::config
