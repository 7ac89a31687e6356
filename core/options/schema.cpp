#include "core/options/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "core/error.h"

namespace tandem::options {

namespace {

std::string number_text(double number) {
  const bool whole = number == std::floor(number) && std::abs(number) < 1e15;
  return whole ? fmt::format("{:.0f}", number) : fmt::format("{:g}", number);
}

std::string range_text(const Type& type) {
  const bool machine_limits = type.kind == Type::Kind::integer && type.min && *type.min < -2e9;
  if (machine_limits) return "";
  if (type.min && type.max && type.kind == Type::Kind::integer && *type.max >= 2147483647.0)
    return fmt::format(" ≥ {}", number_text(*type.min));
  if (type.min && type.max)
    return fmt::format(" in {}{}, {}{}", type.open_min ? '(' : '[', number_text(*type.min),
                       number_text(*type.max), type.open_max ? ')' : ']');
  if (type.min) return fmt::format(" {} {}", type.open_min ? ">" : "≥", number_text(*type.min));
  if (type.max) return fmt::format(" {} {}", type.open_max ? "<" : "≤", number_text(*type.max));
  return "";
}

std::string object_text(const Schema& schema) {
  std::vector<std::string> words;
  for (const auto& [name, object] : schema.presets) words.push_back(name);
  if (words.empty() && !schema.short_key.empty()) {
    Type type = schema.find(schema.short_key)->type;
    type.nullable = false;
    return fmt::format("object, or its {} alone ({})", schema.short_key, type.text());
  }
  return words.empty() ? "object" : fmt::format("one of {}, or object", fmt::join(words, ", "));
}

}  // namespace

std::string variant_of(const Schema& schema, const Value& object) {
  if (const Value* name = object.find(schema.discriminator); name && name->is(Value::Kind::string))
    return name->text;
  const Key* key = schema.find(schema.discriminator);
  return key && key->default_value.is(Value::Kind::string) ? key->default_value.text : "";
}

namespace detail {

namespace {

void* moved_by(void* object, std::ptrdiff_t offset) { return static_cast<char*>(object) + offset; }
const void* moved_by(const void* object, std::ptrdiff_t offset) {
  return static_cast<const char*>(object) + offset;
}

}  // namespace

Key of_member(const Key& key, std::ptrdiff_t offset) {
  Key outer = key;
  outer.store = [offset, inner = key.store](void* object, const Value& value) {
    inner(moved_by(object, offset), value);
  };
  outer.load = [offset, inner = key.load](const void* object) { return inner(moved_by(object, offset)); };
  if (key.visit)
    outer.visit = [offset, inner = key.visit](const void* object, const std::string& path,
                                              const VisitObject& visitor) {
      inner(moved_by(object, offset), path, visitor);
    };
  return outer;
}

std::vector<CrossRule> of_member(const std::vector<CrossRule>& rules, std::ptrdiff_t offset) {
  std::vector<CrossRule> outer;
  for (const CrossRule& rule : rules)
    outer.push_back({rule.key, [offset, inner = rule.complaint](const void* object) {
                       return inner(moved_by(object, offset));
                     }});
  return outer;
}

Description::Description(Record (*fresh)()) : defaults_(std::make_shared<const Record>(fresh())) {
  schema_.make = fresh;
}

void Description::key(std::string_view name, const MemberBinding& member, std::ptrdiff_t offset,
                      std::string_view help, const Rule& rule) {
  Key key;
  key.name = name;
  key.help = help;
  key.type = member.type(rule);
  if (key.type.keyword.empty()) key.type.keyword = rule.keyword;
  if (rule.fallback) key.type.nullable = false;
  key.required = rule.required;
  key.only_for = rule.only_for;
  const bool null_is_default = !member.optional && key.type.kind != Type::Kind::any;
  key.store = [&member, offset, null_is_default, defaults = defaults_](void* object, const Value& value) {
    if (value.is(Value::Kind::null) && null_is_default) {
      member.assign(moved_by(object, offset), moved_by(defaults->data(), offset));
    } else {
      member.store(moved_by(object, offset), value);
    }
  };
  key.load = [&member, offset, fallback = rule.fallback](const void* object) {
    Value value = member.load(moved_by(object, offset));
    return value.is(Value::Kind::null) && fallback ? *fallback : value;
  };
  if (member.visit)
    key.visit = [&member, offset](const void* object, const std::string& path, const VisitObject& visitor) {
      member.visit(moved_by(object, offset), path, visitor);
    };
  if (!key.required) key.default_value = key.load(defaults());
  schema_.keys.push_back(std::move(key));
}

void Description::include(const Schema& schema, std::ptrdiff_t offset) {
  for (const Key& key : schema.keys) schema_.keys.push_back(of_member(key, offset));
  for (CrossRule& rule : of_member(schema.rules, offset)) schema_.rules.push_back(std::move(rule));
}

void Description::choice(const Schema& schema, std::ptrdiff_t offset) {
  schema_.discriminator = schema.discriminator;
  schema_.keys.push_back(of_member(*schema.find(schema.discriminator), offset));
}

void Description::options_of(const Schema& schema, std::ptrdiff_t offset) {
  Schema rest = schema;
  std::erase_if(rest.keys, [&](const Key& key) { return key.name == schema.discriminator; });
  include(rest, offset);
}

void Description::rule(std::string_view key, std::function<std::string(const void*)> complaint) {
  schema_.rules.push_back({std::string(key), std::move(complaint)});
}

void Description::rule(std::string_view key, std::string_view what, std::function<bool(const void*)> holds) {
  rule(key, [what = std::string(what), holds = std::move(holds)](const void* object) {
    return holds(object) ? std::string() : what;
  });
}

Schema Description::finished() {
  join_sections(schema_);
  require_unique(schema_);
  return std::move(schema_);
}

}  // namespace detail

namespace {

bool is_object_named(const Key& key, const std::string& name) {
  return key.name == name && key.type.kind == Type::Kind::object;
}

// Splits an object into the values of its two structs.
std::pair<Value, Value> parted(const Value& value, const Schema& first) {
  std::pair<Value, Value> parts{Value(Given{}), Value(Given{})};
  if (!value.is(Value::Kind::object)) {  // the short form, which belongs to the variant
    parts.second = value;
    return parts;
  }
  for (const Value::Member& member : value.members)
    (first.find(member.name) ? parts.first : parts.second).members.push_back(member);
  return parts;
}

Value united(const Value& first, const Value& second, const std::string& discriminator) {
  Given members;
  if (const Value* name = second.find(discriminator)) members.push_back({discriminator, *name});
  members.insert(members.end(), first.members.begin(), first.members.end());
  for (const Value::Member& member : second.members)
    if (member.name != discriminator) members.push_back(member);
  return members;
}

std::shared_ptr<const Schema> united(const Schema& section, const Schema& added) {
  ensure(section.short_key.empty() && section.presets.empty() && added.presets.empty(), "options",
         "a section that variants add to has no short forms of its own");
  auto schema = std::make_shared<Schema>();
  schema->discriminator = added.discriminator;
  schema->short_key = added.short_key;
  const auto is_discriminator = [&](const Key& key) { return key.name == added.discriminator; };
  std::ranges::copy_if(added.keys, std::back_inserter(schema->keys), is_discriminator);
  std::ranges::copy(section.keys, std::back_inserter(schema->keys));
  std::ranges::copy_if(added.keys, std::back_inserter(schema->keys), std::not_fn(is_discriminator));
  detail::require_unique(*schema);
  return schema;
}

// Rules need no merging: `visit` shows both structs.
Key joined_section(const Key& section, const Key& added) {
  Key key = section;
  key.section = false;
  key.required = section.required || added.required;
  key.only_for = added.only_for;
  const Schema &own = *section.type.schema, &more = *added.type.schema;
  key.type.joined = united(own, more);
  key.type.schema = key.type.joined.get();
  key.store = [to_own = section.store, to_more = added.store, &own](void* object, const Value& value) {
    const auto [first, second] = parted(value, own);
    to_own(object, first);
    to_more(object, second);
  };
  key.load = [of_own = section.load, of_more = added.load, name = more.discriminator](const void* object) {
    return united(of_own(object), of_more(object), name);
  };
  key.visit = [of_own = section.visit, of_more = added.visit](const void* object, const std::string& path,
                                                              const VisitObject& visitor) {
    of_own(object, path, visitor);
    of_more(object, path, visitor);
  };
  key.default_value = united(section.default_value, added.default_value, more.discriminator);
  return key;
}

}  // namespace

void detail::join_sections(Schema& schema) {
  for (std::size_t i = 0; i < schema.keys.size(); ++i) {
    if (!schema.keys[i].section) continue;
    const Key section = schema.keys[i];
    const auto is_added = [&](const Key& key) { return !key.section && is_object_named(key, section.name); };
    std::vector<Key> joined;
    for (const Key& key : schema.keys)
      if (is_added(key)) joined.push_back(joined_section(section, key));
    if (joined.empty()) continue;
    // Variants without keys.
    if (const Key* const names = schema.find(schema.discriminator);
        names && !joined.front().only_for.empty()) {
      Key rest = section;
      for (const std::string& name : names->type.choices)
        if (std::ranges::none_of(joined, [&](const Key& key) { return key.belongs_to(name); }))
          rest.only_for.push_back(name);
      if (!rest.only_for.empty()) joined.push_back(std::move(rest));
    }
    const auto before = static_cast<std::size_t>(
        std::count_if(schema.keys.begin(), schema.keys.begin() + static_cast<std::ptrdiff_t>(i), is_added));
    std::erase_if(schema.keys, is_added);
    i -= before;
    schema.keys.erase(schema.keys.begin() + static_cast<std::ptrdiff_t>(i));
    schema.keys.insert(schema.keys.begin() + static_cast<std::ptrdiff_t>(i), joined.begin(), joined.end());
    i += joined.size() - 1;
  }
}

void detail::require_unique(const Schema& schema) {
  for (const Key& key : schema.keys) {
    for (const Key& other : schema.keys) {
      if (&other >= &key || other.name != key.name) continue;
      const bool apart =
          !key.only_for.empty() && !other.only_for.empty() &&
          std::ranges::none_of(key.only_for, [&](const std::string& name) { return other.belongs_to(name); });
      ensure(apart, "options", "the key {} is described twice", key.name);
    }
  }
}

Type detail::ranged(Type::Kind kind, const Rule& rule) {
  Type type;
  type.kind = kind;
  type.min = rule.min;
  type.max = rule.max;
  type.open_min = rule.open_min;
  type.open_max = rule.open_max;
  type.choices = rule.choices;
  return type;
}

Type::Type() = default;
Type::Type(const Type&) = default;
Type::Type(Type&&) noexcept = default;
Type& Type::operator=(const Type&) = default;
Type& Type::operator=(Type&&) noexcept = default;
Type::~Type() = default;

Key::Key() = default;
Key::Key(const Key&) = default;
Key::Key(Key&&) noexcept = default;
Key& Key::operator=(const Key&) = default;
Key& Key::operator=(Key&&) noexcept = default;
Key::~Key() = default;

Schema::Schema() = default;
Schema::Schema(const Schema&) = default;
Schema::Schema(Schema&&) noexcept = default;
Schema& Schema::operator=(const Schema&) = default;
Schema& Schema::operator=(Schema&&) noexcept = default;
Schema::~Schema() = default;

Rule::~Rule() = default;

Record::Record(const Record& other)
    : kind_(other.kind_), data_(other.kind_ ? other.kind_->clone(other.data_) : nullptr) {}

Record::Record(Record&& other) noexcept
    : kind_(std::exchange(other.kind_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}

Record& Record::operator=(Record other) noexcept {
  std::swap(kind_, other.kind_);
  std::swap(data_, other.data_);
  return *this;
}

Record::~Record() {
  if (kind_) kind_->destroy(data_);
}

std::string Type::text() const {
  std::string text;
  switch (kind) {
    case Kind::boolean:
      text = "true or false";
      break;
    case Kind::integer:
      text = "integer" + range_text(*this);
      break;
    case Kind::number:
      text = "number" + range_text(*this);
      break;
    case Kind::numbers:
      text = fmt::format("{}{}, or a list of up to {}", whole ? "integer" : "number", range_text(*this),
                         max_count);
      break;
    case Kind::string:
      text = choices.empty() ? "string" : fmt::format("one of {}", fmt::join(choices, ", "));
      break;
    case Kind::list:
      text =
          single ? fmt::format("{0}, or list of {0}", item->text()) : fmt::format("list of {}", item->text());
      break;
    case Kind::object:
      text = object_text(*schema);
      break;
    case Kind::map:
      text = fmt::format("object of {}", item->text());
      break;
    case Kind::any:
      text = "any";
      break;
  }
  if (!keyword.empty()) text += fmt::format(", or \"{}\"", keyword);
  if (nullable) text += ", or null";
  return text;
}

bool Type::in_range(double value) const {
  if (!std::isfinite(value)) return false;
  if (min && (open_min ? value <= *min : value < *min)) return false;
  return !(max && (open_max ? value >= *max : value > *max));
}

std::string Type::broken_range(double value) const {
  constexpr double kSanity = 1e6;  // larger bounds are only sanity checks and are not shown
  if (!min && !max) return fmt::format("must be finite, is {}", value);
  if (min && (!max || (*max >= kSanity && !(value > *min))))
    return fmt::format("must be {} {}, is {}", open_min ? "more than" : "at least", number_text(*min), value);
  if (!min)
    return fmt::format("must be {} {}, is {}", open_max ? "less than" : "at most", number_text(*max), value);
  return fmt::format("must lie in {}{}, {}{}, is {}", open_min ? '(' : '[', number_text(*min),
                     number_text(*max), open_max ? ')' : ']', value);
}

bool Key::belongs_to(std::string_view name_of_object) const {
  return only_for.empty() || std::find(only_for.begin(), only_for.end(), name_of_object) != only_for.end();
}

const Key* Schema::find(std::string_view name) const {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

const Key* Schema::find(std::string_view name, std::string_view variant) const {
  const auto found = std::find_if(
      keys.begin(), keys.end(), [&](const Key& key) { return key.name == name && key.belongs_to(variant); });
  return found == keys.end() ? find(name) : &*found;
}

void store_options(const Schema& schema, void* object, const Value& value) {
  if (!value.is(Value::Kind::object)) {
    const auto preset = schema.presets.find(value.text);
    if (value.is(Value::Kind::string) && preset != schema.presets.end()) {
      store_options(schema, object, preset->second);
    } else {
      schema.find(schema.short_key)->store(object, value);
    }
    return;
  }
  const std::string name = variant_of(schema, value);
  for (const Key& key : schema.keys) {
    const Value* member = value.find(key.name);
    if (!member || !key.belongs_to(name)) continue;
    const bool keyword =
        !key.type.keyword.empty() && member->is(Value::Kind::string) && member->text == key.type.keyword;
    key.store(object, keyword ? Value{} : *member);
  }
}

namespace {

Value load_members(const Schema& schema, const void* object) {
  std::string name;
  if (const Key* key = schema.find(schema.discriminator)) name = key->load(object).text;
  Given members;
  for (const Key& key : schema.keys) {
    if (!key.belongs_to(name)) continue;
    Value value = key.load(object);
    if (value.is(Value::Kind::null) && !key.type.keyword.empty()) value = key.type.keyword;
    members.push_back({key.name, std::move(value)});
  }
  return members;
}

}  // namespace

Value load_options(const Schema& schema, const void* object) {
  Value value = load_members(schema, object);
  for (const auto& [name, preset] : schema.presets) {
    Record sample = schema.make();
    store_options(schema, sample.data(), preset);
    if (load_members(schema, sample.data()) == value) return name;
  }
  return value;
}

}  // namespace tandem::options
