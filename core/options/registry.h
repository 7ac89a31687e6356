// Registry: named alternatives of one key, each with its own options.
//
//   using Shapes = Registry<double(int sides)>;            // result and arguments of construction
//   Shapes& shapes() {
//     static Shapes registry({.what = "shape", .help = "shape to draw"},
//     {Shapes::entry<RegularOptions>(
//         "regular", "regular polygon",
//         Describe<RegularOptions>().key("side", &RegularOptions::side, "length of a side"),
//         [](const RegularOptions& o, int sides) { return sides * o.side; })});
//     return registry;
//   }
//   shapes().add(star_entry);                              // from outside the tree, before the first use
//   shapes().make("regular", {{"side", 2.0}}, 4);          // from C++
//   struct Config { Choice<shapes> shape; };               // from a file: {"shape": {"name": "regular",
//   "side": 2}}
//   shapes().make(config.shape, 4);
#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/options/check.h"
#include "core/options/schema.h"

namespace tandem::options {

// Description of one alternative.
struct Variant {
  std::string name, help;
  Schema schema;  // of its options
};

// The chosen alternative with its options: a value.
class Chosen {
 public:
  Chosen() = default;  // none
  explicit Chosen(const Variant& variant) : variant_(&variant), options_(variant.schema.make()) {}
  // `options` belong to the variant.
  Chosen(const Variant& variant, Record options) : variant_(&variant), options_(std::move(options)) {}

  const std::string& name() const;  // "" if none
  // Its options as the struct of its entry. Throws InternalError for another type.
  template <class T>
  const T& as() const {
    ensure(variant_ && options_.type() == typeid(T), "options", "the options of {} are of another type",
           name());
    return *static_cast<const T*>(options_.data());
  }
  template <class T>
  T& as() {
    return const_cast<T&>(std::as_const(*this).template as<T>());
  }
  // For generic code: the value of a key, where "data.name" is nested; null if there is no such key.
  Value value(std::string_view key) const;
  const void* options() const { return options_.data(); }
  void* options() { return options_.data(); }
  const Variant* variant() const { return variant_; }

 private:
  const Variant* variant_ = nullptr;
  Record options_;
};

// Description of the registry.
struct RegistryInfo {
  std::string what;           // for messages: "optimizer"
  std::string help;           // of the key that names an alternative
  std::string fallback = {};  // default; "": the key is required
  std::string discriminator = "name";
};

// The description of a Chosen among `variants`, which must outlive it: the discriminator and the keys of all
// variants, with their owners. Keys described alike are merged; a key described differently occurs several
// times.
Schema schema_of_choice(const RegistryInfo& info, const std::vector<const Variant*>& variants);

[[noreturn]] void throw_late(const std::string& what, const std::string& name);
[[noreturn]] void throw_twice(const std::string& what, const std::string& name);
[[noreturn]] void throw_unknown(const std::string& what, std::string_view name,
                                const std::vector<std::string>& known);

// Named things of one kind, in the order that documents list them. Keys, help and schemas are derived from
// them once, so they are complete at first use: whoever has more adds them at the start of a program.
template <class Entry>
class Entries {
 public:
  // One entry, or a function that makes one or several. Functions run at first use, so that what their
  // schemas name, things of other kinds, can be added until then.
  class Source {
   public:
    Source(Entry entry) : make_([entry = std::move(entry)] { return std::vector<Entry>{entry}; }) {}
    template <std::invocable Make>
    Source(Make make)
        : make_([make = std::move(make)]() -> std::vector<Entry> {
            if constexpr (std::convertible_to<std::invoke_result_t<Make>, Entry>)
              return {make()};
            else
              return make();
          }) {}
    std::vector<Entry> operator()() const { return make_(); }

   private:
    std::function<std::vector<Entry>()> make_;
  };

  // `what`: "optimizer", for messages.
  Entries(std::string what, std::vector<Source> sources)
      : what_(std::move(what)), sources_(std::move(sources)) {}
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;

  // Throws UserError after the first use. Two entries of one name are a UserError at first use.
  void add(Source source) {
    if (used_) throw_late(what_, source().front().name);
    sources_.push_back(std::move(source));
  }

  const std::vector<Entry>& entries() const {
    std::call_once(once_, [this] {
      std::vector<Entry> all;
      for (const Source& source : sources_)
        for (Entry& entry : source()) {
          if (std::ranges::find(all, entry.name, &Entry::name) != all.end()) throw_twice(what_, entry.name);
          all.push_back(std::move(entry));
        }
      entries_ = std::move(all);
      used_ = true;
    });
    return entries_;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Entry& each : entries()) names.push_back(each.name);
    return names;
  }
  std::vector<const Variant*> variants() const {
    std::vector<const Variant*> variants;
    for (const Entry& each : entries()) variants.push_back(&each);
    return variants;
  }
  // nullptr when there is none of that name.
  const Entry* find(std::string_view name) const {
    const auto found = std::ranges::find(entries(), name, &Entry::name);
    return found == entries_.end() ? nullptr : &*found;
  }
  // Throws UserError with the nearest name.
  const Entry& at(std::string_view name) const {
    const Entry* const found = find(name);
    if (!found) throw_unknown(what_, name, names());
    return *found;
  }

 private:
  std::string what_;
  std::vector<Source> sources_;
  mutable std::once_flag once_;
  mutable std::atomic<bool> used_ = false;
  mutable std::vector<Entry> entries_;
};

template <class Signature>
struct RegistryEntry;

template <class Made, class... Context>
struct RegistryEntry<Made(Context...)> : Variant {
  std::function<Made(const void* options, Context...)> make;
};

template <class Signature>
class Registry;

template <class Made, class... Context>
class Registry<Made(Context...)> : public Entries<RegistryEntry<Made(Context...)>> {
 public:
  using Entry = RegistryEntry<Made(Context...)>;
  using Source = typename Entries<Entry>::Source;

  // `description` is of T, and `make` takes a T.
  template <class T, class Make>
  static Entry entry(std::string name, std::string help, Schema description, Make make) {
    return {{std::move(name), std::move(help), std::move(description)},
            [make = std::move(make)](const void* options, Context... context) -> Made {
              return make(*static_cast<const T*>(options), std::forward<Context>(context)...);
            }};
  }

  Registry(const RegistryInfo& info, std::vector<Source> sources)
      : Entries<Entry>(info.what, std::move(sources)), info_(info) {}

  // The default Chosen.
  Chosen fallback() const { return info_.fallback.empty() ? Chosen() : Chosen(this->at(info_.fallback)); }
  const Schema& schema() const {
    std::call_once(once_, [this] { schema_ = schema_of_choice(info_, this->variants()); });
    return schema_;
  }

  // Throw UserError for an unknown name and for unknown or out-of-range options, and whatever construction
  // throws.
  Chosen chosen(std::string_view name, const Given& given) const {
    const Entry& entry = this->at(name);
    return {entry, bound(entry.name, entry.schema, given)};
  }
  Made make(std::string_view name, const Given& given, Context... context) const {
    return make(chosen(name, given), std::forward<Context>(context)...);
  }
  Made make(const Chosen& chosen, Context... context) const {
    return this->at(chosen.name()).make(chosen.options(), std::forward<Context>(context)...);
  }

 private:
  RegistryInfo info_;
  mutable std::once_flag once_;
  mutable Schema schema_;
};

// A Chosen of one registry, as a member of a described struct; kRegistry is the function that returns the
// registry.
template <auto kRegistry>
class Choice : public Chosen {
 public:
  Choice() : Chosen(kRegistry().fallback()) {}
  explicit Choice(std::string_view name, const Given& given = {}) : Chosen(kRegistry().chosen(name, given)) {}

  static const Schema& schema() {
    static const Schema schema = [] {
      const Schema& chosen = kRegistry().schema();
      detail::Description own(&Record::fresh<Choice>);
      own.schema().discriminator = chosen.discriminator;
      own.schema().short_key = chosen.short_key;
      const auto* const object = static_cast<const Choice*>(own.defaults());
      own.include(chosen, reinterpret_cast<const char*>(static_cast<const Chosen*>(object)) -
                              reinterpret_cast<const char*>(object));
      return std::move(own.schema());
    }();
    return schema;
  }
};

}  // namespace tandem::options
