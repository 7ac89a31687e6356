#include "core/suggest.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace tandem;

TEST_CASE("edit distances", "[suggest]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("batch_size", "batchsize") == 1);
  CHECK(edit_distance("sdg", "sgd") == 1);  // neighbours swapped
  CHECK(edit_distance("ADAM", "adam") == 0);
  CHECK(edit_distance("ca", "abc") == 3);  // each part is edited once (optimal string alignment)
}

TEST_CASE("the nearest name is suggested, or none", "[suggest]") {
  const std::vector<std::string> known = {"sgd",     "adam",        "adamw",
                                          "rmsprop", "random_crop", "horizontal_flip"};
  CHECK(nearest("adma", known) == "adam");
  CHECK(nearest("Adamw", known) == "adamw");
  CHECK(nearest("rmsporp", known) == "rmsprop");
  CHECK(nearest("flip", known) == "horizontal_flip");
  CHECK(nearest("random_crop_and_more", known) == "random_crop");
  CHECK(nearest("zzzzzz", known).empty());
  // A third of the letters and one more may differ.
  CHECK(nearest("abcdefg", std::vector<std::string>{"abcdxyz"}) == "abcdxyz");
  CHECK(nearest("abcdefg", std::vector<std::string>{"abcwxyz"}).empty());
  CHECK(nearest("xy", known).empty());
  CHECK(nearest("", known).empty());
  CHECK(nearest(std::string(100000, 'a'), known).empty());
  CHECK(did_you_mean("sdg", known) == "; did you mean \"sgd\"?");
  CHECK(did_you_mean("zzzzzz", known).empty());
}
