// Every n-th batch of a source, as one of several processes takes them.
#include "data/strided_source.h"

#include "core/error.h"
#include "data/registry.h"
#include "data/sample_source.h"
#include "tests/data/divided.h"

using namespace tandem;
using namespace tandem::datasets;

namespace {

SourcePtr digits() {
  const Splits splits = open_dataset("digits");
  return std::make_shared<SampleSource>(splits.test, evaluation_pipeline(splits, {}),
                                        SampleOptions{.batch_size = 50});
}

}  // namespace

TEST_CASE("strides of a source have its batches, each of them once", "[strided]") {
  Loader whole(digits());
  const auto all = test::serve_epoch(whole).batches;
  REQUIRE(all.size() == 8);  // of 359 samples, the last of 9
  for (const Index every : {1, 2, 3, 8}) {
    std::vector<test::HostBatch> met(all.size());
    for (Index first = 0; first < every; ++first) {
      Loader loader(std::make_shared<StridedSource>(digits(), first, every));
      const auto served = test::serve_epoch(loader);
      for (std::size_t k = 0; k < served.batches.size(); ++k)
        met.at(static_cast<std::size_t>(first) + k * static_cast<std::size_t>(every)) = served.batches[k];
    }
    CHECK(met == all);
  }
}

TEST_CASE("a stride goes on from the positions of its source", "[strided]") {
  Loader loader(std::make_shared<StridedSource>(digits(), 1, 3));
  CHECK(loader.batches_per_epoch() == 3);
  CHECK(loader.state().position == 50);
  loader.seek({0, 200});
  CHECK(loader.next()->first == 200);
  CHECK(loader.next()->first == 350);
  CHECK_FALSE(loader.next());
}

TEST_CASE("a stride beyond the batches has none", "[strided]") {
  CHECK(StridedSource(digits(), 8, 9).batches(0) == 0);
  CHECK(StridedSource(digits(), 7, 9).batches(0) == 1);
  CHECK_THROWS_AS(StridedSource(digits(), 2, 2), UserError);
  CHECK_THROWS_AS(StridedSource(digits(), 0, 2).divided({.parts = 2}), InternalError);
}
