#include "core/options/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/printable.h"
#include "core/suggest.h"
#include "core/synonyms.h"

namespace tandem::options {

namespace {

constexpr std::size_t kLongestKey = 256;  // longer words are not mistyped keys

// Prints foreign keys and strings on one line.
std::string shown(std::string_view text) { return printable(shortened(text, 80)); }

// An integer, possibly written as 10.0 or 1e6.
bool is_whole(const Value& value) {
  return value.is(Value::Kind::integer) ||
         (value.is(Value::Kind::number) && std::floor(value.number) == value.number &&
          std::abs(value.number) < 0x1p53);
}

// Converts whole numbers to integers for the readers.
void as_integer(Value& value) {
  if (value.is(Value::Kind::number)) value.integer = static_cast<std::int64_t>(value.number);
  value.kind = Value::Kind::integer;
}

bool matches_kind(const Type& type, const Value& value);

// A preset's name, or a possible value of the short key.
bool stands_for_object(const Schema& schema, const Value& value) {
  if (value.is(Value::Kind::string) && schema.presets.count(value.text)) return true;
  return !schema.short_key.empty() && matches_kind(schema.find(schema.short_key)->type, value);
}

// Whether the value's kind matches `Type::text`.
bool matches_kind(const Type& type, const Value& value) {
  switch (type.kind) {
    case Type::Kind::boolean:
      return value.is(Value::Kind::boolean);
    case Type::Kind::integer:
      return is_whole(value);
    case Type::Kind::number:
      return value.is(Value::Kind::number) || value.is(Value::Kind::integer);
    case Type::Kind::numbers:
      if (value.is(Value::Kind::list)) return value.items.size() <= type.max_count;
      return value.is(Value::Kind::number) || value.is(Value::Kind::integer);
    case Type::Kind::string:
      return value.is(Value::Kind::string);
    case Type::Kind::list:
      if (!type.single) return value.is(Value::Kind::list);
      return value.is(Value::Kind::list) ? !value.items.empty() : matches_kind(*type.item, value);
    case Type::Kind::map:
      return value.is(Value::Kind::object);
    case Type::Kind::object:
      return value.is(Value::Kind::object) || stands_for_object(*type.schema, value);
    case Type::Kind::any:
      break;
  }
  return true;
}

class Validator {
 public:
  Validator(const Schema& root, const Value& whole) : root_(root), variant_(variant_of(root, whole)) {
    if (!is_variant(root, variant_)) variant_.clear();
    const Value* const given = whole.find(root.discriminator);
    if (given && !variant_.empty()) named_ = given->origin;
  }

  std::vector<Problem> problems;

  void check_object(const Schema& schema, Value& object, const std::string& path) {
    if (!object.is(Value::Kind::object)) return check_short(schema, object, path);
    const std::string name = variant_of(schema, object);
    drop_leftovers(schema, object, name);
    std::vector<std::string> leftovers;
    for (auto& [member, value] : object.members) {
      if (full()) return;
      const Key* key = schema.find(member, name);
      const std::string member_path = joined(path, shown(member));
      if (!key && named_.above(value.origin) && !other_owners(joined(path, member)).empty()) {
        leftovers.push_back(member);
      } else if (!key) {
        report_unknown(schema, path, member, value);
      } else if (!key->belongs_to(name)) {
        if (is_variant(schema, name)) report(value, member_path, foreign(schema, name, member));
      } else {
        check(key->type, value, member_path);
      }
    }
    for (const std::string& member : leftovers) object.erase(member);
    for (const Key& key : schema.keys) {
      if (key.required && key.belongs_to(name) && !object.find(key.name))
        report(object, joined(path, key.name), fmt::format("required: {} ({})", key.help, key.type.text()));
    }
  }

 private:
  bool full() const { return problems.size() >= kMaxProblems; }

  void check(const Type& type, Value& value, const std::string& path) {
    if (full()) return;
    if (value.is(Value::Kind::null) && type.nullable) return;
    if (value.is(Value::Kind::string) && !type.keyword.empty() && value.text == type.keyword) return;
    if (!matches_kind(type, value)) return mistyped(type, value, path);
    if (type.kind == Type::Kind::integer) as_integer(value);
    switch (type.kind) {
      case Type::Kind::integer:
      case Type::Kind::number:
        if (!type.in_range(value.number)) mistyped(type, value, path);
        break;
      case Type::Kind::numbers:
        check_numbers(type, value, path);
        break;
      case Type::Kind::string:
        if (!type.choices.empty() &&
            std::find(type.choices.begin(), type.choices.end(), value.text) == type.choices.end())
          mistyped(type, value, path);
        break;
      case Type::Kind::list:
        if (!value.is(Value::Kind::list)) check(*type.item, value, path);
        for (std::size_t i = 0; i < value.items.size(); ++i)
          check(*type.item, value.items[i], joined(path, std::to_string(i)));
        break;
      case Type::Kind::map:
        for (auto& [key, member] : value.members) check(*type.item, member, joined(path, shown(key)));
        break;
      case Type::Kind::object:
        check_object(*type.schema, value, path);
        break;
      case Type::Kind::boolean:
      case Type::Kind::any:
        break;
    }
  }

  void check_numbers(const Type& type, Value& value, const std::string& path) {
    const auto good = [&](Value& number) {
      if (type.whole && is_whole(number)) as_integer(number);
      return (number.is(Value::Kind::integer) || (!type.whole && number.is(Value::Kind::number))) &&
             type.in_range(number.number);
    };
    const bool all =
        value.is(Value::Kind::list) ? std::all_of(value.items.begin(), value.items.end(), good) : good(value);
    if (!all) mistyped(type, value, path);
  }

  void check_short(const Schema& schema, Value& word, const std::string& path) {
    if (schema.presets.count(word.text) || schema.short_key.empty()) return;
    const Key* key = schema.find(schema.short_key);
    check(key->type, word, path);
    for (const Key& other : schema.keys) {
      if (other.required && other.name != schema.short_key && other.belongs_to(word.text))
        report(word, joined(path, other.name),
               fmt::format("required: {} ({})", other.help, other.type.text()));
    }
  }

  // A mistyped name is reported once, not for every key beside it.
  static bool is_variant(const Schema& schema, const std::string& name) {
    const Key* key = schema.find(schema.discriminator);
    return key &&
           std::find(key->type.choices.begin(), key->type.choices.end(), name) != key->type.choices.end();
  }

  static void drop_leftovers(const Schema& schema, Value& object, const std::string& name) {
    const Value* given = object.find(schema.discriminator);
    if (!given || !is_variant(schema, name)) return;
    const Origin origin = given->origin;
    std::erase_if(object.members, [&](const Value::Member& member) {
      const Key* key = schema.find(member.name, name);
      return key && !key->belongs_to(name) && origin.above(member.value.origin);
    });
  }

  void mistyped(const Type& type, const Value& value, const std::string& path) {
    std::string what = fmt::format("expected {}, got {}", type.text(), printable(excerpt(value)));
    const bool word = value.is(Value::Kind::string);
    if (word || value.is(Value::Kind::boolean)) {
      std::vector<std::string> words = type.choices;
      if (type.kind == Type::Kind::object) {
        for (const auto& [name, preset] : type.schema->presets) words.push_back(name);
      }
      what += did_you_mean(word ? value.text : value.boolean ? "true" : "false", words);
    }
    report(value, path, std::move(what));
  }

  // A key of a section, not of every item of a list.
  static const ListedKey* named(const std::vector<ListedKey>& keys, const std::string& name) {
    const ListedKey* found = nullptr;
    for (const ListedKey& listed : keys) {
      if (squeezed(listed.key->name) != name) continue;
      if (listed.path.find("[]") == std::string::npos) return &listed;
      if (!found) found = &listed;
    }
    return found;
  }

  void report_unknown(const Schema& schema, const std::string& path, const std::string& member,
                      const Value& value) {
    const std::string at = joined(path, shown(member));
    if (const std::string owners = other_owners(joined(path, member)); !owners.empty())
      return report(value, at, fmt::format("no key of \"{}\"; it belongs to {}", variant_, owners));
    std::vector<std::string> names;
    for (const Key& key : schema.keys) names.push_back(key.name);
    const auto [key, place] = meant(schema, names, member);
    if (!key) return report(value, at, fmt::format("unknown key; known here: {}", fmt::join(names, ", ")));
    const auto proposed = [&key = key](const std::string& name) {
      return fmt::format("unknown key; did you mean {}? ({})", name, key->type.text());
    };
    if (place.empty()) {
      report(value, at, proposed(joined(path, key->name)), proposed(key->name));
    } else {
      report(value, at, proposed(place));
    }
  }

  struct Meant {
    const Key* key = nullptr;
    std::string place;  // "": the same object
  };
  // The key that was meant, in the same object or elsewhere; else the nearest one.
  Meant meant(const Schema& schema, const std::vector<std::string>& names, const std::string& member) {
    if (member.size() > kLongestKey) return {};
    if (own_keys_.empty()) own_keys_ = list_keys(root_, variant_);
    const std::vector<ListedKey>& everywhere = own_keys_;
    for (const std::string& synonym : synonyms_of(member)) {
      for (const Key& key : schema.keys)
        if (squeezed(key.name) == synonym) return {&key, ""};
      if (const ListedKey* found = named(everywhere, synonym)) return {found->key, found->path};
    }
    if (const std::string name = nearest(member, names); !name.empty()) return {schema.find(name), ""};
    const ListedKey* best = nullptr;
    int best_distance = 3;
    for (const ListedKey& listed : everywhere) {
      const int distance = edit_distance(member, listed.key->name);
      if (distance < best_distance && distance * 3 <= static_cast<int>(listed.key->name.size())) {
        best = &listed;
        best_distance = distance;
      }
    }
    return best ? Meant{best->key, best->path} : Meant{};
  }

  // Other variants of the whole that have a key at `path`.
  std::string other_owners(const std::string& path) {
    if (variant_.empty()) return "";
    if (all_keys_.empty()) all_keys_ = list_keys(root_);
    const auto found = std::ranges::find(all_keys_, path, &ListedKey::path);
    return found == all_keys_.end() ? "" : fmt::format("{}", fmt::join(found->only_for, ", "));
  }

  static std::string foreign(const Schema& schema, const std::string& name, const std::string& member) {
    std::vector<std::string> owners;
    for (const Key& key : schema.keys) {
      for (const std::string& owner : key.only_for) {
        if (key.name == member)
          owners.push_back(owner.empty() ? "one without a " + schema.discriminator : owner);
      }
    }
    return fmt::format("no key of \"{}\"; it belongs to {}", shown(name), fmt::join(owners, ", "));
  }

  void report(const Value& value, const std::string& path, std::string what, std::string alike = {}) {
    if (full()) return;
    problems.push_back({value.origin, path, std::move(what), std::move(alike)});
  }

  const Schema& root_;
  std::string variant_;                         // of the whole; "" without one
  Origin named_;                                // of its name, if given
  std::vector<ListedKey> own_keys_, all_keys_;  // of that variant, and of all; listed on demand
};

// Lists the keys of a type; `around` are the variants of an enclosing object that have it.
void list_into(const Type& type, const std::string& path, const std::vector<std::string>& around,
               std::vector<ListedKey>& keys) {
  if (type.kind == Type::Kind::list) list_into(*type.item, path + "[]", around, keys);
  if (type.kind == Type::Kind::map) list_into(*type.item, path + ".*", around, keys);
  if (type.kind != Type::Kind::object) return;
  for (const Key& key : type.schema->keys) {
    const std::string own = joined(path, key.name);
    const std::vector<std::string>& owners = key.only_for.empty() ? around : key.only_for;
    keys.push_back({own, &key, owners});
    list_into(key.type, own, owners, keys);
  }
}

bool described_alike(const ListedKey& a, const ListedKey& b) {
  return a.path == b.path && a.key->required == b.key->required && a.key->help == b.key->help &&
         a.key->type.text() == b.key->type.text() && a.key->default_value == b.key->default_value;
}

// Merges keys that variants describe alike, without owners if all have it.
std::vector<ListedKey> united(std::vector<ListedKey> keys, const std::vector<std::string>& variants) {
  std::vector<ListedKey> rows;
  for (ListedKey& key : keys) {
    const auto same =
        std::ranges::find_if(rows, [&](const ListedKey& row) { return described_alike(row, key); });
    if (same == rows.end()) {
      rows.push_back(std::move(key));
      continue;
    }
    for (std::string& owner : key.only_for)
      if (std::ranges::count(same->only_for, owner) == 0) same->only_for.push_back(std::move(owner));
  }
  const auto is_owner = [](const ListedKey& row) {
    return [&row](const std::string& variant) { return std::ranges::count(row.only_for, variant) > 0; };
  };
  for (ListedKey& row : rows)
    if (!variants.empty() && std::ranges::all_of(variants, is_owner(row))) row.only_for.clear();
  return rows;
}

}  // namespace

std::string Problem::text() const {
  std::string place = origin.place();
  return fmt::format("{}: {}: {}", place, path, what);
}

namespace {

// "model.layers.#": the items of a list are one place, and so are the keys of an object.
std::string place_of(const std::string& path) {
  std::string place, word;
  for (const char c : path) {
    word += c;
    if (c != '.') continue;
    const bool index = std::all_of(word.begin(), word.end() - 1, [](char d) { return d >= '0' && d <= '9'; });
    place += index ? "#." : word;
    word.clear();
  }
  return place;
}

}  // namespace

std::vector<std::string> listed(const std::vector<Problem>& problems) {
  constexpr std::size_t kShown = 2;  // of those after the first
  struct Group {
    const Problem* first;
    std::vector<std::string> others;
  };
  std::vector<Group> groups;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  for (const Problem& problem : problems) {
    const std::string object = problem.path.substr(0, problem.path.rfind('.') + 1);
    const std::string& what = problem.alike.empty() ? problem.what : problem.alike;
    const auto [at, fresh] = known.emplace(std::pair(place_of(object), what), groups.size());
    if (fresh) {
      groups.push_back({&problem, {}});
    } else {
      groups[at->second].others.push_back(fmt::format("{}: {}", problem.origin.place(), problem.path));
    }
  }
  std::vector<std::string> lines;
  for (const Group& group : groups) {
    std::string line = group.first->text();
    if (const std::size_t count = group.others.size(); count > 0) {
      const auto end = group.others.begin() + static_cast<std::ptrdiff_t>(std::min(count, kShown));
      line += fmt::format(" ({} similar: {}{})", count, fmt::join(group.others.begin(), end, ", "),
                          count > kShown ? ", …" : "");
    }
    lines.push_back(std::move(line));
  }
  if (problems.size() >= kMaxProblems)
    lines.push_back(fmt::format("there may be more: checking stopped after {} mistakes", kMaxProblems));
  return lines;
}

std::vector<Problem> validate(const Schema& schema, Value& root) {
  if (!root.is(Value::Kind::object))
    return {{root.origin, "configuration", fmt::format("expected an object, got {}", excerpt(root))}};
  Validator validator(schema, root);
  validator.check_object(schema, root, "");
  return std::move(validator.problems);
}

std::vector<Complaint> complaints(const Schema& schema, const void* object, const std::string& path) {
  std::vector<Complaint> found;
  for (const CrossRule& rule : schema.rules) {
    if (std::string what = rule.complaint(object); !what.empty())
      found.push_back({rule.key.empty() ? path : joined(path, rule.key), std::move(what)});
  }
  for (const Key& key : schema.keys) {
    if (!key.visit) continue;
    key.visit(object, joined(path, key.name),
              [&](const std::string& inner_path, const Schema& inner, const void* inside) {
                std::ranges::move(complaints(inner, inside, inner_path), std::back_inserter(found));
              });
  }
  return found;
}

namespace {

// Reports the first number that is out of range.
void require_in_range(const std::string& where, const Type& type, const Value& value,
                      const std::string& path) {
  if (value.is(Value::Kind::list)) {
    const Type& item = type.item ? *type.item : type;
    for (std::size_t i = 0; i < value.items.size(); ++i)
      require_in_range(where, item, value.items[i], joined(path, std::to_string(i)));
  } else if (value.is(Value::Kind::object)) {
    if (!type.schema) return;
    for (const auto& [name, member] : value.members)
      require_in_range(where, type.schema->find(name, variant_of(*type.schema, value))->type, member,
                       joined(path, name));
  } else if ((value.is(Value::Kind::number) || value.is(Value::Kind::integer)) &&
             !type.in_range(value.number)) {
    throw OptionError(where, path, type.broken_range(value.number));
  }
}

}  // namespace

void require_sound(const std::string& where, const Schema& schema, const void* object) {
  for (const Key& key : schema.keys) require_in_range(where, key.type, key.load(object), key.name);
  const std::vector<Complaint> broken = complaints(schema, object);
  if (!broken.empty()) throw OptionError(where, broken.front().path, broken.front().what);
}

Record bound(const std::string& where, const Schema& schema, const Given& given) {
  Value object(given);
  const std::vector<Problem> problems = validate(schema, object);
  if (!problems.empty()) throw OptionError(where, problems.front().path, problems.front().what, ": ");
  Record record = schema.make();
  store_options(schema, record.data(), object);
  const std::vector<Complaint> broken = complaints(schema, record.data());
  if (!broken.empty()) throw OptionError(where, broken.front().path, broken.front().what);
  return record;
}

std::vector<ListedKey> list_keys(const Schema& schema, const std::string& variant) {
  std::vector<ListedKey> keys;
  for (const Key& key : schema.keys) {
    if (!variant.empty() && !key.belongs_to(variant)) continue;
    keys.push_back({key.name, &key, key.only_for});
    list_into(key.type, key.name, key.only_for, keys);
  }
  const Key* const names = schema.find(schema.discriminator);
  return united(std::move(keys), names ? names->type.choices : std::vector<std::string>());
}

}  // namespace tandem::options
