// Checks the type and the text of an error together.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "core/error.h"

// The expression throws an E whose message contains `part`.
#define CHECK_FAILS(E, expression, part) \
  CHECK_THROWS_MATCHES(expression, E, ::tandem::test::MessageContains(part))

namespace tandem::test {

class MessageContains : public Catch::MatcherBase<std::exception> {
 public:
  explicit MessageContains(std::string part) : part_(std::move(part)) {}
  bool match(const std::exception& error) const override {
    return std::string(error.what()).find(part_) != std::string::npos;
  }
  std::string describe() const override { return "says \"" + part_ + "\""; }

 private:
  std::string part_;
};

}  // namespace tandem::test
