#include "core/options/value.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/printable.h"

namespace tandem::options {

Value::Value() = default;
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;
Value::Value(double given) : kind(Kind::number), number(given) {}
Value::Value(std::string given) : kind(Kind::string), text(std::move(given)) {}
Value::Value(const char* given) : kind(Kind::string), text(given) {}
Value::Value(std::vector<Member> given) : kind(Kind::object), members(std::move(given)) {}

namespace {

void write_string(std::string& to, std::string_view text) {
  to += '"';
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '"':
        to += "\\\"";
        break;
      case '\\':
        to += "\\\\";
        break;
      case '\b':
        to += "\\b";
        break;
      case '\f':
        to += "\\f";
        break;
      case '\n':
        to += "\\n";
        break;
      case '\r':
        to += "\\r";
        break;
      case '\t':
        to += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          to += fmt::format("\\u{:04x}", static_cast<int>(c));
        } else {
          to += c;
        }
    }
  }
  to += '"';
}

// The shortest text that reads back as the same non-integer number.
std::string json_number(double number) {
  if (!std::isfinite(number)) return "null";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void write(std::string& to, const Value& value) {
  const char* separator = "";
  switch (value.kind) {
    case Value::Kind::null:
      to += "null";
      break;
    case Value::Kind::boolean:
      to += value.boolean ? "true" : "false";
      break;
    case Value::Kind::integer:
      to += std::to_string(value.integer);
      break;
    case Value::Kind::number:
      to += json_number(value.number);
      break;
    case Value::Kind::string:
      write_string(to, value.text);
      break;
    case Value::Kind::list:
      to += '[';
      for (const Value& item : value.items) {
        to += std::exchange(separator, ",");
        write(to, item);
      }
      to += ']';
      break;
    case Value::Kind::object:
      to += '{';
      for (const auto& [name, member] : value.members) {
        to += std::exchange(separator, ",");
        write_string(to, name);
        to += ':';
        write(to, member);
      }
      to += '}';
      break;
  }
}

}  // namespace

std::string Origin::place() const {
  switch (layer) {
    case Layer::built_in:
      return "default";
    case Layer::command_line:
      return "command line";
    default:
      return line > 0 ? fmt::format("{}:{}", *source, line) : *source;
  }
}

bool Origin::above(const Origin& other) const {
  return layer != other.layer ? layer > other.layer : depth > other.depth;
}

const Value* Value::find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

Value* Value::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

Value& Value::set(std::string key, Value value) {
  if (Value* existing = find(key)) return *existing = std::move(value);
  members.push_back({std::move(key), std::move(value)});
  return members.back().value;
}

bool Value::erase(std::string_view key) {
  return std::erase_if(members, [&](const Member& member) { return member.name == key; }) > 0;
}

bool operator==(const Value& a, const Value& b) {
  if (a.kind != b.kind || a.items != b.items || a.members.size() != b.members.size()) return false;
  for (std::size_t i = 0; i < a.members.size(); ++i) {
    if (a.members[i].name != b.members[i].name || !(a.members[i].value == b.members[i].value)) return false;
  }
  return a.boolean == b.boolean && a.integer == b.integer && a.number == b.number && a.text == b.text;
}

std::string_view name_of(Value::Kind kind) {
  constexpr std::string_view names[] = {"null", "boolean", "integer", "number", "string", "list", "object"};
  return names[static_cast<int>(kind)];
}

std::string to_string(const Value& value) {
  std::string text;
  write(text, value);
  return text;
}

std::string excerpt(const Value& value, std::size_t limit) { return shortened(to_string(value), limit); }

void merge(Value& under, Value over) {
  if (!under.is(Value::Kind::object) || !over.is(Value::Kind::object)) {
    under = std::move(over);
    return;
  }
  under.origin = over.origin;
  for (auto& [key, value] : over.members) {
    if (Value* existing = under.find(key)) {
      merge(*existing, std::move(value));
    } else {
      under.members.push_back({key, std::move(value)});
    }
  }
}

std::string joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

}  // namespace tandem::options
