// Configuration files: read twice, checked against the schema, resolved, loaded again, and built from.
#include <nlohmann/json.hpp>

#include "config/reader.h"
#include "config/schema.h"
#include "core/error.h"
#include "tests/fuzz/configuration.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

// Keys in a text, duplicates counted, by the parser's own events: what was read must have as many.
std::size_t keys_of(const config::Value& value) {
  std::size_t count = value.members.size();
  for (const auto& member : value.members) count += keys_of(member.value);
  for (const config::Value& item : value.items) count += keys_of(item);
  return count;
}

std::size_t keys_in(Bytes input) {
  std::size_t count = 0;
  const auto* text = reinterpret_cast<const char*>(input.data());
  const auto count_key = [&](int, nlohmann::json::parse_event_t event, nlohmann::json&) {
    count += event == nlohmann::json::parse_event_t::key;
    return true;
  };
  expect(!nlohmann::json::parse(text, text + input.size(), count_key, false, true).is_discarded(),
         "the parser refuses what was read");
  return count;
}

void run(Bytes input) {
  const config::Origin origin{.source = std::make_shared<const std::string>("input")};
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  const config::Value value = config::parse(text, origin);
  expect(keys_of(value) == keys_in(input), "a key was lost");
  const std::string dumped = config::to_json(value).dump();
  expect(config::to_json(config::parse(dumped, origin)) == config::to_json(value),
         "written and read, it is another value");
  // Files that the input names lie outside of it.
  require(!value.find("base"), "input", "bases are not followed here");
  const config::Loaded loaded = config::load(file_of(input));
  config::with_origins(loaded);
  check_round_trip(loaded);
  build(loaded);
}

}  // namespace

TANDEM_FUZZ_TARGET("config", run)

}  // namespace tandem::fuzz
