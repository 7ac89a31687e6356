#include "config/reader.h"

#include <fmt/core.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "files/input.h"
#include "files/json_text.h"

namespace tandem::config {

namespace {

// Iterator that counts the lines that the parser has consumed.
class LineCounter {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  struct Position {
    int line = 1;
    char last = 0;
  };

  LineCounter(const char* at, Position* position) : at_(at), position_(position) {}

  reference operator*() const { return *at_; }
  LineCounter& operator++() {
    position_->last = *at_;
    position_->line += *at_++ == '\n';
    return *this;
  }
  LineCounter operator++(int) {
    LineCounter before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const LineCounter& a, const LineCounter& b) { return a.at_ == b.at_; }
  friend bool operator!=(const LineCounter& a, const LineCounter& b) { return a.at_ != b.at_; }

 private:
  const char* at_;
  Position* position_;
};

// Builds the Value tree from parser events.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(const Origin& origin, const LineCounter::Position& position)
      : origin_(origin), position_(position) {}

  Value root;

  bool null() override { return add(make(Value::Kind::null, position_.line)); }
  bool boolean(bool flag) override {
    Value value = make(Value::Kind::boolean, position_.line);
    value.boolean = flag;
    return add(std::move(value));
  }
  bool number_integer(number_integer_t number) override {
    Value value = make(Value::Kind::integer, line_before_last());
    value.integer = number;
    value.number = static_cast<double>(number);
    return add(std::move(value));
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (number > static_cast<number_unsigned_t>(INT64_MAX))
      fail(line_before_last(), fmt::format("the integer {} is too large (at most {})", number, INT64_MAX));
    return number_integer(static_cast<number_integer_t>(number));
  }
  bool number_float(number_float_t number, const string_t&) override {
    Value value = make(Value::Kind::number, line_before_last());
    value.number = number;
    return add(std::move(value));
  }
  bool string(string_t& text) override {
    Value value = make(Value::Kind::string, position_.line);
    value.text = std::move(text);
    return add(std::move(value));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Value::Kind::object); }
  bool start_array(std::size_t) override { return open(Value::Kind::list); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (const Value* first = open_.back()->find(name))
      fail(position_.line, fmt::format("{}: duplicate key; first given on line {}", joined(path(), name),
                                       first->origin.line));
    if (open_.back()->members.size() >= kMaxKeys)
      fail(position_.line, fmt::format("{}: more than {} keys in one object", path(), kMaxKeys));
    // Null until the value follows; it has the line of the key for messages.
    open_.back()->members.push_back({std::move(name), make(Value::Kind::null, position_.line)});
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: syntax error while parsing …"
    std::string what = files::json_reason(error);
    if (const auto colon = what.find(": "); colon != std::string::npos) what = what.substr(colon + 2);
    for (char& c : what) {
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
    fail(line_before_last(), "not valid JSON: " + what);
  }

 private:
  Value make(Value::Kind kind, int line) const {
    Value value;
    value.kind = kind;
    value.origin = origin_;
    value.origin.line = line;
    return value;
  }

  // The parser consumes one character after a number, which may be a line break.
  int line_before_last() const { return position_.line - (position_.last == '\n' ? 1 : 0); }

  bool add(Value value) {
    if (open_.empty()) {
      root = std::move(value);
    } else if (open_.back()->is(Value::Kind::object)) {
      value.origin.line = open_.back()->members.back().value.origin.line;
      open_.back()->members.back().value = std::move(value);
    } else {
      open_.back()->items.push_back(std::move(value));
    }
    return true;
  }

  bool open(Value::Kind kind) {
    if (static_cast<int>(open_.size()) >= kMaxDepth)
      fail(position_.line, fmt::format("nested deeper than {} levels", kMaxDepth));
    add(make(kind, position_.line));
    if (open_.empty()) {
      open_.push_back(&root);
    } else {
      Value& parent = *open_.back();
      open_.push_back(parent.is(Value::Kind::object) ? &parent.members.back().value : &parent.items.back());
    }
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string path() const {
    std::string path;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      path = open_[i]->is(Value::Kind::object) ? joined(path, open_[i]->members.back().name)
                                               : joined(path, std::to_string(open_[i]->items.size() - 1));
    }
    return path;
  }

  [[noreturn]] void fail(int line, const std::string& what) const {
    throw UserError("", origin_.layer == Layer::command_line
                            ? fmt::format("command line: {}", what)
                            : fmt::format("{}:{}: {}", *origin_.source, line, what));
  }

  const Origin& origin_;
  const LineCounter::Position& position_;
  std::vector<Value*> open_;  // open containers, outermost first; a parent does not grow meanwhile
};

}  // namespace

Value parse(std::string_view text, const Origin& origin) {
  require(text.size() <= kMaxBytes, "", "{}: {} bytes; a configuration has at most {} MiB", origin.place(),
          text.size(), kMaxBytes >> 20);
  LineCounter::Position position;
  Builder builder(origin, position);
  // The parser would stop at a NUL.
  require(text.find('\0') == std::string_view::npos, "", "{}: not valid JSON: it contains a NUL byte",
          origin.place());
  nlohmann::json::sax_parse(LineCounter(text.data(), &position),
                            LineCounter(text.data() + text.size(), &position), &builder,
                            nlohmann::json::input_format_t::json, true, true);
  return std::move(builder.root);
}

Value read_file(const std::string& path, const Origin& origin) {
  const files::InputFile file(path);
  require(file.size() <= kMaxBytes, "", "{}: {} bytes; a configuration has at most {} MiB", path, file.size(),
          kMaxBytes >> 20);
  std::string text(file.size(), '\0');
  file.read(0, text.data(), text.size());
  return parse(text, origin);
}

}  // namespace tandem::config
