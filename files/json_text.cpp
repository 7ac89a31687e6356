#include "files/json_text.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/error.h"
#include "core/printable.h"

namespace tandem::files {

namespace {

// Checks the limits during parsing.
class Guard {
 public:
  Guard(const std::string& where, const std::string& what, const JsonLimits& limits)
      : where_(where), what_(what), limits_(limits) {}

  void key(const std::string& name) {
    Level& level = levels_.back();
    require(level.keys.insert(name).second, where_, "\"{}\" stands twice in {}", shortened(name, 200), what_);
    require(level.keys.size() <= limits_.keys, where_, "{} has more than {} keys in one object", what_,
            limits_.keys);
    level.items = 0;
  }
  void value() {
    if (levels_.empty()) return;
    require(++levels_.back().items <= limits_.items, where_, "{} has more than {} items in one list", what_,
            limits_.items);
  }
  void open() {
    value();
    require(static_cast<int>(levels_.size()) < limits_.depth, where_, "{} nests deeper than {}", what_,
            limits_.depth);
    levels_.emplace_back();
  }
  void close() { levels_.pop_back(); }

 private:
  struct Level {
    std::set<std::string> keys;
    std::size_t items = 0;
  };

  const std::string& where_;
  const std::string& what_;
  const JsonLimits& limits_;
  std::vector<Level> levels_;
};

}  // namespace

template <class Json>
Json parse_json(const std::string& text, const std::string& where, const std::string& what,
                const JsonLimits& limits) {
  require(text.find('\0') == std::string::npos, where, "{} is not JSON: it contains a NUL byte", what);
  Guard guard(where, what, limits);
  const auto follow = [&](int, typename Json::parse_event_t event, Json& parsed) {
    using Event = typename Json::parse_event_t;
    switch (event) {
      case Event::key:
        guard.key(parsed.template get_ref<const std::string&>());
        break;
      case Event::value:
        guard.value();
        break;
      case Event::object_start:
      case Event::array_start:
        guard.open();
        break;
      case Event::object_end:
      case Event::array_end:
        guard.close();
        break;
    }
    return true;
  };
  try {
    return Json::parse(text, follow);
  } catch (const typename Json::exception& error) {
    throw UserError(where, fmt::format("{} is not JSON: {}", what, json_reason(error)));
  }
}

std::string json_reason(const std::exception& error) {
  const std::string_view what = error.what();
  const std::size_t end = what.find("] ");
  return std::string(what.starts_with("[json.exception.") && end != what.npos ? what.substr(end + 2) : what);
}

template nlohmann::json parse_json(const std::string&, const std::string&, const std::string&,
                                   const JsonLimits&);
template nlohmann::ordered_json parse_json(const std::string&, const std::string&, const std::string&,
                                           const JsonLimits&);

}  // namespace tandem::files
