#include "config/compose.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/reader.h"
#include "core/build_info.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "files/input.h"

namespace tandem::config {

namespace fs = std::filesystem;

namespace {

constexpr int kMaxBases = 16;

bool is_file(const fs::path& path) { return files::kind_of(path) == files::Kind::file; }

// Canonical path of a file; the path itself if the system reports an error.
fs::path canonical_of(const fs::path& path) {
  std::error_code error;
  fs::path canonical = fs::weakly_canonical(path, error);
  return error ? path : canonical;
}

Value read_level(const std::string& path, std::vector<fs::path>& below, int depth);

Value read_base(const Value& base, const std::string& path, std::vector<fs::path>& below, int depth) {
  require(base.is(Value::Kind::string), "",
          "{}: base: expected a path or the name of a shipped configuration, got {}", base.origin.place(),
          excerpt(base));
  std::string found;
  try {
    found = find_config(base.text, fs::path(path).parent_path().string());
    files::InputFile{found};  // throws if it is not readable
  } catch (const UserError& error) {
    throw UserError("", fmt::format("{}: base: {}", base.origin.place(), error.what()));
  }
  const fs::path canonical = canonical_of(found);
  require(std::find(below.begin(), below.end(), canonical) == below.end(), "",
          "{}: base: \"{}\" is based on this file: a cycle", base.origin.place(), base.text);
  require(depth < kMaxBases, "", "{}: base: more than {} levels", base.origin.place(), kMaxBases);
  return read_level(found, below, depth + 1);
}

Value read_level(const std::string& path, std::vector<fs::path>& below, int depth) {
  Origin origin;
  origin.layer = depth == 0 ? Layer::file : Layer::base;
  origin.depth = -depth;
  origin.source = std::make_shared<const std::string>(path);
  Value own = read_file(path, origin);
  const Value* base = own.find("base");
  if (!base) return own;
  below.push_back(canonical_of(path));
  Value merged;
  merged.kind = Value::Kind::object;
  if (base->is(Value::Kind::list)) {
    for (const Value& item : base->items) merge(merged, read_base(item, path, below, depth));
  } else if (!base->is(Value::Kind::null)) {
    merge(merged, read_base(*base, path, below, depth));
  }
  below.pop_back();
  own.erase("base");
  merge(merged, std::move(own));
  return merged;
}

// ---- overrides

struct Override {
  std::string argument;
  std::vector<std::string> path;

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw UserError(
        "", fmt::format("command line: {}: {}", argument, fmt::format(format, std::forward<Args>(args)...)));
  }
  std::string path_to(std::size_t length) const {
    return fmt::format("{}",
                       fmt::join(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(length), "."));
  }
};

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> words;
  std::size_t start = 0;
  for (std::size_t dot; (dot = path.find('.', start)) != std::string::npos; start = dot + 1)
    words.push_back(path.substr(start, dot - start));
  words.push_back(path.substr(start));
  return words;
}

std::size_t list_index(const Override& given, std::size_t depth, const Value& list) {
  const std::string& word = given.path[depth];
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
  if (error != std::errc{} || end != word.data() + word.size())
    given.fail("{} is a list; \"{}\" is not an index", given.path_to(depth), word);
  if (index >= list.items.size())
    given.fail("{} has {} items; there is no item {} (+{}=… appends)", given.path_to(depth),
               list.items.size(), index, given.path_to(depth));
  return index;
}

// Expands a preset or a short form to its object.
void spell_out(Value& word, const Schema& schema) {
  const auto preset = schema.presets.find(word.text);
  if (word.is(Value::Kind::string) && preset != schema.presets.end()) {
    word = parse(to_string(preset->second), word.origin);
  } else if (!schema.short_key.empty()) {
    Value object;
    object.kind = Value::Kind::object;
    object.origin = word.origin;
    object.set(schema.short_key, std::move(word));
    word = std::move(object);
  }
}

// The value at path[0, depth). Missing containers are created as empty objects.
Value& descend(Value& root, const Override& given, std::size_t depth, const Origin& origin,
               const Schema& schema) {
  Value* at = &root;
  const Schema* known = &schema;  // of `at`; null if unknown
  for (std::size_t i = 0; i < depth; ++i) {
    if (at->is(Value::Kind::list)) {
      at = &at->items[list_index(given, i, *at)];
      continue;
    }
    const bool word =
        at->is(Value::Kind::string) || at->is(Value::Kind::integer) || at->is(Value::Kind::number);
    if (known && word) spell_out(*at, *known);
    if (!at->is(Value::Kind::object)) {
      if (!at->is(Value::Kind::null))
        given.fail("{} is {}, which has no key \"{}\"; set {}={{…}} instead", given.path_to(i), excerpt(*at),
                   given.path[i], given.path_to(i));
      at->kind = Value::Kind::object;
    }
    const Key* const key = known ? known->find(given.path[i], variant_of(*known, *at)) : nullptr;
    const Type* const type = key && key->type.item ? key->type.item.get() : key ? &key->type : nullptr;
    known = type ? type->schema : nullptr;
    Value* member = at->find(given.path[i]);
    if (!member) {
      Value empty;
      empty.origin = origin;
      member = &at->set(given.path[i], std::move(empty));
    }
    at = member;
  }
  return *at;
}

// The container of the last word of the path; null if it does not exist.
Value* existing(Value& root, const Override& given) {
  Value* at = &root;
  for (std::size_t i = 0; i + 1 < given.path.size() && at; ++i)
    at = at->is(Value::Kind::list) ? &at->items[list_index(given, i, *at)] : at->find(given.path[i]);
  return at;
}

Value value_of(const std::string& text, const Origin& origin) {
  try {
    return parse(text, origin);
  } catch (const UserError&) {
    const bool looks_like_json =
        !text.empty() && (text.front() == '{' || text.front() == '[' || text.front() == '"');
    if (looks_like_json) throw;
    Value value;
    value.kind = Value::Kind::string;
    value.text = text;
    value.origin = origin;
    return value;
  }
}

}  // namespace

std::vector<std::string> shipped_directories() {
  std::vector<std::string> directories;
  std::error_code error;
  const auto add = [&](const fs::path& directory) {
    if (fs::is_regular_file(directory / "fashion_demo.json", error))
      directories.push_back(directory.lexically_normal());
  };
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  add(folder.parent_path() / "share" / "tandem" / "configs");
  fs::path above = folder;
  for (int level = 0; level < 4; ++level) {  // build/<preset>/tests/<program>
    add(above / "configs");
    above = above.parent_path();
  }
  add(fs::path(source_directory()) / "configs");
  return directories;
}

std::vector<std::string> shipped_names() {
  std::vector<std::string> names;
  const auto directories = shipped_directories();
  if (directories.empty()) return names;
  for (const auto& entry : files::entries_of(directories.front())) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string find_config(const std::string& name, const std::string& directory) {
  const fs::path given =
      directory.empty() || fs::path(name).is_absolute() ? fs::path(name) : fs::path(directory) / name;
  const files::Kind kind = files::kind_of(given);
  if (kind == files::Kind::file) return given.string();
  if (kind == files::Kind::folder && files::kind_of(given / "config.json") != files::Kind::absent)
    return (given / "config.json").string();
  if (name.find('/') == std::string::npos) {
    for (const std::string& shipped : shipped_directories()) {
      for (const std::string& file : {name, name + ".json"}) {
        if (is_file(fs::path(shipped) / file))
          return (fs::path(shipped) / file).lexically_proximate(fs::current_path());
      }
    }
  }
  if (kind != files::Kind::absent) return given.string();  // the reader reports what it is
  const std::vector<std::string> names = shipped_names();
  const std::string near = nearest(fs::path(name).stem().string(), names);
  throw UserError("", fmt::format("{}: no such file, and no shipped configuration{}", name,
                                  near.empty() ? fmt::format(" (there are {})", fmt::join(names, ", "))
                                               : fmt::format("; did you mean {}?", near)));
}

Value read_with_bases(const std::string& path) {
  std::vector<fs::path> below;
  return read_level(path, below, 0);
}

void apply_override(Value& root, const std::string& argument, const Schema& schema) {
  require(valid_utf8(argument) == argument, "", "command line: {}: not valid UTF-8", printable(argument));
  Origin origin;
  origin.layer = Layer::command_line;
  const char sign = argument.empty() ? '\0' : argument.front();
  const bool remove = sign == '~', append = sign == '+';
  const std::size_t equals = argument.find('=');
  const std::size_t start = remove || append ? 1 : 0;
  Override given{argument,
                 split(argument.substr(start, equals == std::string::npos ? equals : equals - start))};
  const bool empty_word =
      std::any_of(given.path.begin(), given.path.end(), [](const auto& word) { return word.empty(); });
  if (empty_word || (equals == std::string::npos) != remove ||
      given.path.size() > static_cast<std::size_t>(kMaxDepth))
    given.fail("an override is path.to.key=value, +path.to.list=value or ~path.to.key");

  if (remove) {
    Value* parent = existing(root, given);
    const std::size_t last = given.path.size() - 1;
    if (parent && parent->is(Value::Kind::list)) {
      parent->items.erase(parent->items.begin() +
                          static_cast<std::ptrdiff_t>(list_index(given, last, *parent)));
    } else if (!parent || !parent->erase(given.path[last])) {
      given.fail("there is no {} to remove", given.path_to(given.path.size()));
    }
    return;
  }
  Value value = value_of(argument.substr(equals + 1), origin);
  Value& target = descend(root, given, given.path.size(), origin, schema);
  if (!append) {
    target = std::move(value);
    return;
  }
  if (target.is(Value::Kind::null)) target.kind = Value::Kind::list;
  if (!target.is(Value::Kind::list))
    given.fail("{} is {}, not a list", given.path_to(given.path.size()), excerpt(target));
  target.items.push_back(std::move(value));
  target.origin = origin;
}

}  // namespace tandem::config
