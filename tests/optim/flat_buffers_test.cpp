// The layout of the flat buffers.
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("flat buffers: reverse order, aligned, gaps stay zero", "[optim]") {
  const auto toy = std::make_shared<Toy>();
  toy->add("a", {3}, [](Index i) { return 1.0 + static_cast<double>(i); });
  toy->add("frozen", {7}, [](Index) { return 5.0; }).set_trainable(false);
  toy->add("b", {5, 5}, [](Index i) { return static_cast<double>(i); });
  // eps 0 would make 0/0 of a gap that took part.
  optim::Adam adam(toy->parameters(), {.lr = 0.1, .eps = 0.0});
  optim::Step step(*toy, {&adam});
  const optim::FlatBuffers& flat = step.buffers();
  REQUIRE(flat.slots().size() == 2);
  CHECK(flat.slots()[0].parameter.name() == "b");
  CHECK(flat.slots()[1].first == 32);
  CHECK(flat.length() == 48);
  CHECK(values_of((*toy)[0].value()) == Values{1, 2, 3});
  CHECK((*toy)[0].value().shares_storage(flat.masters()));
  CHECK_FALSE((*toy)[1].value().shares_storage(flat.masters()));
  CHECK(reinterpret_cast<std::uintptr_t>((*toy)[0].value().raw()) % 64 == 0);
  for (int t = 0; t < 3; ++t) {
    step.backward(add(product((*toy)[0], Values(3, 1.0f)), product((*toy)[2], Values(25, -1.0f))));
    CHECK((*toy)[2].gradient().shares_storage(flat.gradients()));
    step.apply();
  }
  const Values masters = values_of(flat.masters());
  for (std::size_t i = 0; i < masters.size(); ++i) {
    if ((i >= 25 && i < 32) || i >= 35) CHECK(masters[i] == 0.0f);
    CHECK(std::isfinite(masters[i]));
  }
}

TEST_CASE("flat buffers take no more than alignment needs", "[optim]") {
  for (const Index count : {1, 15, 16, 17, 32}) {
    const auto toy = std::make_shared<Toy>();
    for (const char* name : {"a", "b"}) toy->add(name, {count}, [](Index) { return 1.0; });
    optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
    CHECK(optim::Step(*toy, {&sgd}).buffers().length() == 2 * ((count + 15) / 16 * 16));
  }
}
