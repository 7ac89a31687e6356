// The three kinds of error and their messages.
#include "core/error.h"

#include "tests/support/errors.h"

using namespace tandem;

TEST_CASE("a message starts with its place", "[error]") {
  CHECK(std::string(UserError("conv2d", "needs 4 axes").what()) == "[conv2d] needs 4 axes");
  CHECK(std::string(VendorError("", "out of memory").what()) == "out of memory");
}

TEST_CASE("the place and the message of an error can be had apart", "[error]") {
  const UserError placed("a] b", "needs [4] axes"), plain("", "[x] out of memory");
  CHECK(placed.where() == "a] b");
  CHECK(placed.message() == "needs [4] axes");
  CHECK(plain.where().empty());
  CHECK(plain.message() == "[x] out of memory");
  const Error copy = placed;
  CHECK(copy.where() == "a] b");
  CHECK(std::is_nothrow_copy_constructible_v<Error>);
}

TEST_CASE("require throws UserError, ensure InternalError, and only when the condition fails", "[error]") {
  CHECK_NOTHROW(require(true, "op", "never"));
  CHECK_NOTHROW(ensure(true, "op", "never"));
  CHECK_FAILS(UserError, require(false, "data.batch_size", "must be at least {}, got {}", 1, -3),
              "[data.batch_size] must be at least 1, got -3");
  CHECK_FAILS(InternalError, ensure(false, "engine", "{} left", 2), "[engine] 2 left");
}

TEST_CASE("the kinds are distinct and share one base", "[error]") {
  const auto kind_of = [](auto&& raise) -> std::string {
    try {
      raise();
    } catch (const UserError&) {
      return "user";
    } catch (const InternalError&) {
      return "internal";
    } catch (const VendorError&) {
      return "vendor";
    }
    return "none";
  };
  CHECK(kind_of([] { throw UserError("a", "b"); }) == "user");
  CHECK(kind_of([] { throw InternalError("a", "b"); }) == "internal");
  CHECK(kind_of([] { throw VendorError("a", "b"); }) == "vendor");
  CHECK_THROWS_AS(throw VendorError("a", "b"), Error);
  CHECK_THROWS_AS(throw UserError("a", "b"), std::runtime_error);
}
