#include "core/options/registry.h"

#include <algorithm>

#include "core/suggest.h"

namespace tandem::options {

namespace {

bool described_alike(const Key& a, const Key& b) {
  return a.name == b.name && a.required == b.required && a.help == b.help && a.type.text() == b.type.text() &&
         a.type.schema == b.type.schema && a.default_value == b.default_value;
}

// A key of the options, accessed through a Chosen.
Key of_chosen(const Key& key, const std::string& owner) {
  Key outer = key;
  const auto own = [name = key.name](const Chosen& chosen) -> const Key* {
    return chosen.variant() ? chosen.variant()->schema.find(name) : nullptr;
  };
  outer.only_for = {owner};
  outer.store = [own](void* object, const Value& value) {
    Chosen& chosen = *static_cast<Chosen*>(object);
    own(chosen)->store(chosen.options(), value);
  };
  outer.load = [own](const void* object) {
    const Chosen& chosen = *static_cast<const Chosen*>(object);
    const Key* const inner = own(chosen);
    return inner ? inner->load(chosen.options()) : Value();
  };
  if (key.visit)
    outer.visit = [own](const void* object, const std::string& path, const VisitObject& visitor) {
      const Chosen& chosen = *static_cast<const Chosen*>(object);
      const Key* const inner = own(chosen);
      if (inner && inner->visit) inner->visit(chosen.options(), path, visitor);
    };
  return outer;
}

// Adds the keys of a variant: each before its successor there, and beside others of its name.
void add_variant(std::vector<Key>& keys, const Variant& variant) {
  std::size_t next = keys.size();
  for (auto key = variant.schema.keys.rbegin(); key != variant.schema.keys.rend(); ++key) {
    const auto alike =
        std::ranges::find_if(keys, [&](const Key& known) { return described_alike(known, *key); });
    if (alike != keys.end()) {
      alike->only_for.push_back(variant.name);
      next = static_cast<std::size_t>(alike - keys.begin());
      continue;
    }
    const auto namesake =
        std::find_if(keys.rbegin(), keys.rend(), [&](const Key& known) { return known.name == key->name; });
    if (namesake != keys.rend()) next = static_cast<std::size_t>(keys.rend() - namesake);
    keys.insert(keys.begin() + static_cast<std::ptrdiff_t>(next), of_chosen(*key, variant.name));
  }
}

Key discriminator_of(const RegistryInfo& info, const std::vector<const Variant*>& variants) {
  Key key;
  key.name = info.discriminator;
  key.help = info.help;
  key.type.kind = Type::Kind::string;
  for (const Variant* variant : variants) {
    key.type.choices.push_back(variant->name);
    key.type.meanings.push_back(variant->help);
  }
  key.required = info.fallback.empty();
  if (!key.required) key.default_value = info.fallback;
  key.store = [variants](void* object, const Value& value) {
    for (const Variant* variant : variants)
      if (variant->name == value.text) *static_cast<Chosen*>(object) = Chosen(*variant);
  };
  key.load = [](const void* object) -> Value { return static_cast<const Chosen*>(object)->name(); };
  return key;
}

}  // namespace

const std::string& Chosen::name() const {
  static const std::string none;
  return variant_ ? variant_->name : none;
}

Value Chosen::value(std::string_view key) const {
  const std::size_t dot = std::min(key.find('.'), key.size());
  const Key* const found = variant_ ? variant_->schema.find(key.substr(0, dot)) : nullptr;
  if (!found) return {};
  Value value = found->load(options_.data());
  for (std::size_t start = dot; start < key.size();) {
    const std::size_t end = std::min(key.find('.', start + 1), key.size());
    const Value* const inner = value.find(key.substr(start + 1, end - start - 1));
    if (!inner) return {};
    value = Value(*inner);
    start = end;
  }
  return value;
}

Schema schema_of_choice(const RegistryInfo& info, const std::vector<const Variant*>& variants) {
  Schema schema;
  schema.discriminator = schema.short_key = info.discriminator;
  for (const Variant* variant : variants) add_variant(schema.keys, *variant);
  for (Key& key : schema.keys) {
    if (key.only_for.size() == variants.size()) key.only_for.clear();
  }
  schema.keys.insert(schema.keys.begin(), discriminator_of(info, variants));
  for (const Variant* variant : variants) {
    for (const CrossRule& rule : variant->schema.rules)
      schema.rules.push_back({rule.key, [variant, inner = rule.complaint](const void* object) {
                                const Chosen& chosen = *static_cast<const Chosen*>(object);
                                return chosen.variant() == variant ? inner(chosen.options()) : std::string();
                              }});
  }
  schema.make = [] { return Record(Chosen()); };
  return schema;
}

void throw_late(const std::string& what, const std::string& name) {
  throw UserError(
      what, fmt::format("\"{}\" is added after the first use, when keys and help already list every {}; "
                        "add it at the start of the program",
                        name, what));
}

void throw_twice(const std::string& what, const std::string& name) {
  throw UserError(what, fmt::format("\"{}\" is added twice; give one of the two another name", name));
}

void throw_unknown(const std::string& what, std::string_view name, const std::vector<std::string>& known) {
  throw UserError(what, fmt::format("there is no {} \"{}\"{}", what, name, did_you_mean(name, known)));
}

}  // namespace tandem::options
